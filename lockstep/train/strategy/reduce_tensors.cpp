#include "lockstep/train/strategy/reduce_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::train {
namespace {

std::string type_and_shape(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()), c10::str(tensor.sizes()));
}

}  // namespace

void check_numbers(const char* where, const at::Tensor& tensor) {
  constexpr std::array kTypes{at::kHalf, at::kBFloat16, at::kFloat, at::kDouble,
                              at::kInt,  at::kLong,     at::kByte};
  const bool is_known =
      tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
      std::find(kTypes.begin(), kTypes.end(), tensor.scalar_type()) != kTypes.end();
  if (is_known) return;
  throw Error(
      ErrorKind::Options,
      fmt::format("{}: expected a dense tensor of numbers in the host's memory, found {}{}", where,
                  type_and_shape(tensor), tensor.defined() ? " on " + tensor.device().str() : ""),
      "tensor.to(torch::kCPU, torch::kFloat)");
}

void check_mean(const char* where, comm::ReduceOp op, DataType type) {
  const bool is_whole = type == DataType::I32 || type == DataType::I64 || type == DataType::U8;
  if (op != comm::ReduceOp::Mean || !is_whole) return;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected floating-point numbers for a mean, found {}, which would "
                          "round it",
                          where, name_of(type)),
              "reduce with Sum, or make it a double");
}

at::Tensor reduce_tensors(const char* where, ReplicaGroup& group, comm::ReduceOp op,
                          const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> dense;
  std::vector<comm::ConstBuffer> leaves;
  for (const auto& value : values) {
    check_numbers(where, value);
    if (type_and_shape(value) != type_and_shape(values.front())) {
      throw Error(
          ErrorKind::Options,
          fmt::format("{}: expected {} of every replica, as of replica {}, found {} of "
                      "replica {}",
                      where, type_and_shape(values.front()), group.local().first,
                      type_and_shape(value), group.local().first + static_cast<int>(dense.size())),
          "return tensors of one type and shape from every replica");
    }
    dense.push_back(value.detach().contiguous());
    leaves.emplace_back(dense.back().data_ptr(), dense.back().numel(),
                        nn::data_type_of(value.scalar_type()), "reduce");
  }
  check_mean(where, op, leaves.front().type);
  auto result = at::empty_like(dense.front());
  group.reduce(leaves, {result.data_ptr(), result.numel(), leaves.front().type, "reduce"}, op);
  return result;
}

}  // namespace lockstep::train
