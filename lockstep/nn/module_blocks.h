#pragma once

#include <torch/nn/module.h>

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/nn/model.h"
#include "lockstep/nn/network.h"

namespace torch::nn {
class SequentialImpl;
}

namespace lockstep::nn {

/// A module that is a sequence of blocks which it lists itself:
///
///     std::vector<lockstep::nn::Block> blocks() {
///       return {{"stem", {"conv", "norm"}, [this](auto x) { return norm(conv(x)); }},
///               {"head", {"fc"}, [this](auto x) { return fc(x.flatten(1)); }}};
///     }
///
/// It is asked once, and so is each of its clones: a list that was made before the module was
/// cloned would run the original.
template <typename Module>
concept ListsBlocks = requires(Module& module) {
  { module.blocks() } -> std::convertible_to<std::vector<Block>>;
};

/// The children of a `torch::nn::Sequential` in order, each by its name, as one block: a container
/// within it too.
LOCKSTEP_API std::vector<Block> blocks_of_sequential(torch::nn::SequentialImpl& sequential);

/// The blocks of a network, of which the first checks the pictures.
LOCKSTEP_API std::vector<Block> blocks_of_network(Network& network);

enum class BlockSource { Sequential, Network, List, Whole };

/// Where the blocks of a module come from. A class that derives from `torch::nn::SequentialImpl`
/// may have a forward of its own, so it is a whole, unless it lists blocks.
template <typename Module>
constexpr BlockSource block_source() {
  if (std::is_same_v<Module, torch::nn::SequentialImpl>) return BlockSource::Sequential;
  if (std::is_base_of_v<Network, Module>) return BlockSource::Network;
  if constexpr (ListsBlocks<Module>) return BlockSource::List;
  return BlockSource::Whole;
}

/// What runs them may point at the module.
template <typename Module>
std::vector<Block> blocks_of(Module& module) {
  constexpr auto kSource = block_source<Module>();
  if constexpr (kSource == BlockSource::Sequential) {
    return blocks_of_sequential(module);
  } else if constexpr (kSource == BlockSource::Network) {
    return blocks_of_network(module);
  } else if constexpr (kSource == BlockSource::List) {
    return module.blocks();
  } else {
    return {
        {"model", {}, [&module](at::Tensor input) { return module.forward(std::move(input)); }}};
  }
}

/// Errors: `Options` where there are none, two have one name, or one names what is not there.
LOCKSTEP_API void check_blocks(const torch::nn::Module& module, const std::vector<Block>& blocks);

/// The parameters and buffers of the modules that a block names; and those that it names
/// themselves.
LOCKSTEP_API std::vector<NamedTensor> tensors_of_block(const torch::nn::Module& module,
                                                       const Block& block);

}  // namespace lockstep::nn
