#include "lockstep/nn/block_sharing.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/types.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

/// The slots of a model, and the first block of each.
struct OwnedSlots {
  std::vector<Slot> slots;
  std::map<std::string, std::size_t> by_name;
  std::vector<std::optional<int>> owners;

  explicit OwnedSlots(const Model& model) : slots(slots_of(model.tensors())), owners(slots.size()) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      for (const auto& name : slots[i].names) by_name.emplace(name, i);
    }
  }
};

/// What is frozen is there once, whoever uses it: it counts for nobody.
void add_bytes(plan::BlockProfile& block, const Slot& slot) {
  const auto bytes = static_cast<std::int64_t>(slot.tensor().nbytes());
  if (slot.role == TensorRole::Buffer) {
    block.buffer_bytes += bytes;
  } else if (slot.tensor().requires_grad()) {
    block.parameter_bytes += bytes;
  }
}

plan::BlockProfile list_block(const Model& model, const std::string& name, int number,
                              OwnedSlots& owned) {
  plan::BlockProfile block{.name = name, .shares_with = number};
  for (const auto& named : model.block_tensors(static_cast<std::size_t>(number))) {
    const auto index = owned.by_name.at(named.name);
    auto& owner = owned.owners[index];
    if (!owner) {
      owner = number;
      add_bytes(block, owned.slots[index]);
    } else if (*owner < block.shares_with) {
      block.shares_with = *owner;
      block.shares = named.name;
    }
  }
  return block;
}

/// The parameters that a graph ends in.
std::vector<at::Tensor> leaves_of(const at::Tensor& output) {
  std::vector<at::Tensor> leaves;
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> left;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) left.push_back(node);
  };
  visit(torch::autograd::impl::gradient_edge(output).function.get());
  while (!left.empty()) {
    auto* const node = left.back();
    left.pop_back();
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      leaves.push_back(leaf->variable);
    }
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  return leaves;
}

std::string name_of_range(const Model& model, std::size_t first, std::size_t end) {
  const auto names = model.block_names();
  if (end - first == 1) return fmt::format("block '{}'", names[first]);
  return fmt::format("the stage of blocks '{}' to '{}'", names[first], names[end - 1]);
}

}  // namespace

plan::ModelProfile list_blocks(const Model& model) {
  OwnedSlots owned(model);
  plan::ModelProfile profile;
  int number = 0;
  for (const auto& name : model.block_names()) {
    profile.blocks.push_back(list_block(model, name, number++, owned));
  }
  for (std::size_t i = 0; i < owned.slots.size(); ++i) {
    if (!owned.owners[i]) add_bytes(profile.blocks.back(), owned.slots[i]);
  }
  return profile;
}

void check_owners(const Model& model) {
  std::unordered_set<std::string> owned;
  for (std::size_t block = 0; block < model.block_names().size(); ++block) {
    for (const auto& named : model.block_tensors(block)) owned.insert(named.name);
  }
  for (const auto& named : model.tensors()) {
    if (owned.contains(named.name)) continue;
    throw Error(ErrorKind::Options,
                fmt::format("model: to be split, each parameter and buffer belongs to a block, and "
                            "'{}' to none",
                            named.name),
                "name it, or the module that has it, in Block::modules of the block that uses it");
  }
}

void check_uses(const Model& model, std::size_t first, std::size_t end, const at::Tensor& output) {
  std::unordered_map<const c10::TensorImpl*, std::string> others;
  for (const auto& named : model.tensors()) {
    others.emplace(named.tensor.unsafeGetTensorImpl(), named.name);
  }
  for (auto block = first; block < end; ++block) {
    for (const auto& named : model.block_tensors(block)) {
      others.erase(named.tensor.unsafeGetTensorImpl());
    }
  }
  for (const auto& leaf : leaves_of(output)) {
    const auto other = others.find(leaf.unsafeGetTensorImpl());
    if (other == others.end()) continue;
    throw Error(ErrorKind::Options,
                fmt::format("model: {} computes with '{}', which does not belong to it",
                            name_of_range(model, first, end), other->second),
                "name it, or the module that has it, in Block::modules of the block that uses it");
  }
}

}  // namespace lockstep::nn
