#include "lockstep/nn/model_weights.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/nn/wanted_tensors.h"
#include "lockstep/weights/digest.h"
#include "lockstep/weights/match.h"
#include "lockstep/weights/weight_file.h"

namespace lockstep::nn {
namespace {

using weights::ElementType;

ElementType element_type_of(const Slot& slot) {
  switch (slot.tensor().scalar_type()) {
    case at::kBool:
      return ElementType::Bool;
    case at::kByte:
      return ElementType::U8;
    case at::kChar:
      return ElementType::I8;
    case at::kShort:
      return ElementType::I16;
    case at::kInt:
      return ElementType::I32;
    case at::kLong:
      return ElementType::I64;
    case at::kHalf:
      return ElementType::F16;
    case at::kBFloat16:
      return ElementType::BF16;
    case at::kFloat:
      return ElementType::F32;
    case at::kDouble:
      return ElementType::F64;
    default:
      throw Error(ErrorKind::Unavailable,
                  fmt::format("weights: '{}' is of type {}, which weight files do not keep",
                              slot.name(), c10::toString(slot.tensor().scalar_type())));
  }
}

/// A slot as files and digests see it. The tensor holds its bytes.
struct RowMajor {
  at::Tensor tensor;
  weights::TensorView view;
};

RowMajor row_major(const Slot& slot) {
  auto tensor = slot.tensor().detach().cpu().contiguous();
  const std::span bytes(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
  return {tensor, {slot.name(), element_type_of(slot), tensor.sizes().vec(), bytes}};
}

std::vector<weights::Tied> ties_of(const std::vector<Slot>& slots) {
  std::vector<weights::Tied> ties;
  for (const auto& slot : slots) {
    for (std::size_t i = 1; i < slot.names.size(); ++i)
      ties.push_back({slot.names[i], slot.name()});
  }
  return ties;
}

void fill(const Slot& slot, const weights::TensorView& view) {
  // Files keep tensors at any address, so bytes are copied before they are elements.
  const auto values = at::empty(view.shape, slot.tensor().scalar_type());
  if (!view.bytes.empty()) {
    std::memcpy(values.data_ptr(), view.bytes.data(), view.bytes.size());
  }
  const torch::NoGradGuard no_grad;
  slot.tensor().copy_(values);
}

}  // namespace

weights::WantedTensors wanted_by(const std::vector<Slot>& slots) {
  weights::WantedTensors wanted{.tensors = {}, .ties = ties_of(slots)};
  for (const auto& slot : slots) {
    wanted.tensors.push_back({slot.name(), element_type_of(slot), slot.tensor().sizes().vec()});
  }
  return wanted;
}

void save_weights(const Model& model, const std::filesystem::path& path) {
  const auto slots = slots_of(model.tensors());
  std::vector<at::Tensor> held;
  weights::TensorSet set;
  set.ties = ties_of(slots);
  for (const auto& slot : slots) {
    auto [tensor, view] = row_major(slot);
    held.push_back(std::move(tensor));
    set.tensors.push_back(std::move(view));
  }
  weights::write_weights(path, set);
}

void load_weights(Model& model, const std::filesystem::path& path) {
  const auto file = weights::read_weights(path);
  load_weights(model, file.set(), path.string());
}

void load_weights(Model& model, const weights::TensorSet& set, std::string_view where) {
  const auto slots = slots_of(model.tensors());
  const auto found = weights::match(wanted_by(slots), set, where);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (found[i] != nullptr) fill(slots[i], *found[i]);
  }
}

std::string digest_of(const Model& model) {
  weights::WeightsDigest digest;
  for (const auto& slot : slots_of(model.tensors())) digest.add(row_major(slot).view);
  return digest.hex();
}

std::vector<std::pair<std::string, std::string>> digests_of(const Model& model) {
  std::vector<std::pair<std::string, std::string>> digests;
  for (const auto& slot : slots_of(model.tensors())) {
    weights::WeightsDigest digest;
    digest.add(row_major(slot).view);
    digests.emplace_back(slot.name(), digest.hex());
  }
  return digests;
}

}  // namespace lockstep::nn
