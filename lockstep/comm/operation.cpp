#include "lockstep/comm/operation.h"

#include <fmt/format.h>

#include "lockstep/base/fnv.h"

namespace lockstep::comm {
std::string_view name_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::Sum:
      return "sum";
    case ReduceOp::Mean:
      return "mean";
    case ReduceOp::Min:
      return "min";
    case ReduceOp::Max:
      return "max";
    case ReduceOp::Product:
      return "product";
  }
  return "?";
}

std::string_view name_of(OperationKind kind) noexcept {
  switch (kind) {
    case OperationKind::AllReduce:
      return "all_reduce";
    case OperationKind::ReduceScatter:
      return "reduce_scatter";
    case OperationKind::AllGather:
      return "all_gather";
    case OperationKind::Broadcast:
      return "broadcast";
    case OperationKind::Gather:
      return "gather";
    case OperationKind::Scatter:
      return "scatter";
    case OperationKind::Barrier:
      return "barrier";
    case OperationKind::Allocate:
      return "allocate";
    case OperationKind::AllReduceNodes:
      return "all_reduce_nodes";
  }
  return "?";
}

bool combines(OperationKind kind) noexcept {
  return kind == OperationKind::AllReduce || kind == OperationKind::ReduceScatter;
}

Signature signature_of(const Operation& operation) {
  Signature signature{};
  signature.kind = operation.kind;
  signature.op = operation.op;
  signature.root = operation.root;
  signature.has_leaves = operation.has_leaves();
  Fnv layout;
  const auto add = [&](DataType type, std::int64_t count) {
    signature.type = type;
    signature.count += count;
    ++signature.buffers;
    layout.add(static_cast<std::uint64_t>(type)).add(static_cast<std::uint64_t>(count));
  };
  // What every instance has: the root alone holds all blocks of a gather or scatter.
  const bool by_input = operation.kind == OperationKind::Gather ||
                        operation.kind == OperationKind::ReduceScatter ||
                        operation.kind == OperationKind::AllGather;
  if (by_input) {
    for (const auto& buffer : operation.inputs) add(buffer.type, buffer.count);
  } else {
    for (const auto& buffer : operation.outputs) add(buffer.type, buffer.count);
  }
  if (operation.kind == OperationKind::Allocate) {
    signature.count = static_cast<std::int64_t>(operation.bytes);
  }
  if (operation.num_leaves > 0) layout.add(static_cast<std::uint64_t>(operation.num_leaves));
  signature.layout = layout.value();
  return signature;
}

std::string describe(const Signature& signature) {
  if (signature.kind == OperationKind::Barrier) return "barrier";
  if (signature.kind == OperationKind::Allocate) {
    return fmt::format("allocate({} bytes)", signature.count);
  }
  auto text = fmt::format("{}(", name_of(signature.kind));
  if (combines(signature.kind)) text += fmt::format("{}, ", name_of(signature.op));
  if (signature.buffers == 1) {
    text += fmt::format("{} {}", signature.count, name_of(signature.type));
  } else {
    text += fmt::format("{} buffers, {} elements, layout {:08x}", signature.buffers,
                        signature.count, signature.layout & 0xffffffffU);
  }
  if (signature.root >= 0) text += fmt::format(", root {}", signature.root);
  if (signature.has_leaves) text += ", leaves";
  return text + ")";
}

}  // namespace lockstep::comm
