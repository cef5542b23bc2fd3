#include "lockstep/nn/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

/// What two names of one tensor have in common.
using Identity = std::tuple<const void*, std::vector<std::int64_t>, std::vector<std::int64_t>>;

Identity identity_of(const at::Tensor& tensor) {
  return {tensor.data_ptr(), tensor.sizes().vec(), tensor.strides().vec()};
}

void add_tensor(Slot& slot, const NamedTensor& named) {
  slot.names.push_back(named.name);
  // What is learned under one of its names is learned.
  if (named.role == TensorRole::Parameter) slot.role = TensorRole::Parameter;
  const auto is_same = [&](const at::Tensor& other) { return other.is_same(named.tensor); };
  if (std::none_of(slot.tensors.begin(), slot.tensors.end(), is_same)) {
    slot.tensors.push_back(named.tensor);
  }
}

const at::Tensor& find(const std::unordered_map<std::string, at::Tensor>& targets,
                       const NamedTensor& source) {
  const auto target = targets.find(source.name);
  if (target != targets.end() && target->second.sizes() == source.tensor.sizes() &&
      target->second.scalar_type() == source.tensor.scalar_type()) {
    return target->second;
  }
  throw Error(ErrorKind::Options,
              fmt::format("model: a clone has no tensor '{}' of shape [{}]", source.name,
                          fmt::join(source.tensor.sizes().vec(), ", ")),
              "let reset() register just what the constructor registers, or hand over a function "
              "that makes the module");
}

}  // namespace

at::Tensor Model::forward(at::Tensor input) {
  const auto blocks = block_names().size();
  auto activation = std::move(input);
  for (std::size_t block = 0; block < blocks; ++block) {
    activation = run_block(block, std::move(activation));
  }
  return activation;
}

std::vector<Slot> slots_of(const std::vector<NamedTensor>& tensors) {
  auto sorted = tensors;
  std::sort(sorted.begin(), sorted.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  std::vector<Slot> slots;
  std::map<Identity, std::size_t> places;
  for (const auto& named : sorted) {
    auto place = slots.size();
    // Without elements there is no memory to share.
    if (named.tensor.numel() > 0) {
      place = places.try_emplace(identity_of(named.tensor), place).first->second;
    }
    if (place == slots.size()) slots.push_back({.names = {}, .tensors = {}, .role = named.role});
    add_tensor(slots[place], named);
  }
  return slots;
}

std::int64_t count_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const auto& slot : slots_of(model.tensors())) {
    if (slot.role == TensorRole::Parameter) count += slot.tensor().numel();
  }
  return count;
}

void copy_and_tie(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
  const torch::NoGradGuard no_grad;
  std::unordered_map<std::string, at::Tensor> targets;
  for (const auto& target : to) targets.emplace(target.name, target.tensor);
  for (const auto& source : from) {
    auto target = find(targets, source);
    target.copy_(source.tensor);
    target.requires_grad_(source.tensor.requires_grad());
  }
  for (const auto& slot : slots_of(from)) {
    auto& kept = targets.at(slot.name());
    for (const auto& name : slot.names) {
      auto& tied = targets.at(name);
      if (!tied.is_same(kept)) tied.set_data(kept.detach());
    }
  }
  if (slots_of(to).size() != slots_of(from).size()) {
    throw Error(ErrorKind::Options, "model: a clone ties tensors that the model does not tie",
                "hand over a function that makes the module");
  }
}

}  // namespace lockstep::nn
