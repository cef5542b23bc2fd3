#include "lockstep/nn/module_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <set>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/nn/module_tensors.h"

namespace lockstep::nn {
namespace {

at::Tensor run_child(torch::nn::AnyModule& child, const std::string& name, at::Tensor input) {
  auto output = child.any_forward(std::move(input));
  if (auto* const tensor = output.try_get<at::Tensor>()) return std::move(*tensor);
  throw Error(ErrorKind::Options,
              fmt::format("model: module '{}' of a torch::nn::Sequential gives {}, and the next "
                          "one takes a tensor",
                          name, c10::demangle(output.type_info().name())),
              "put what hands over more than a tensor into one module, from tensor to tensor");
}

bool belongs_to(const std::string& tensor, const std::string& module) {
  return tensor == module || tensor.starts_with(module + ".");
}

/// What blocks can name: all modules within, and all tensors.
std::set<std::string> names_in(const torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& entry : module.named_modules(std::string(), /*include_self=*/false)) {
    names.insert(entry.key());
  }
  for (const auto& named : tensors_of(module)) names.insert(named.name);
  return names;
}

void check_names(const torch::nn::Module& module, const Block& block,
                 const std::set<std::string>& known) {
  for (const auto& name : block.modules) {
    if (known.contains(name)) continue;
    std::vector<std::string> children;
    std::copy_if(known.begin(), known.end(), std::back_inserter(children),
                 [](const auto& each) { return each.find('.') == std::string::npos; });
    throw Error(ErrorKind::Options,
                fmt::format("model: block '{}' names '{}', and {} has registered no such module or "
                            "tensor",
                            block.name, name, module.name()),
                fmt::format("there are: {}", fmt::join(children, ", ")));
  }
}

}  // namespace

std::vector<Block> blocks_of_sequential(torch::nn::SequentialImpl& sequential) {
  const auto children = sequential.named_children();
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < children.size(); ++i) {
    const auto& name = children[i].key();
    const auto child = sequential.begin() + static_cast<std::ptrdiff_t>(i);
    blocks.push_back({name, {name}, [name, child = *child](at::Tensor input) mutable {
                        return run_child(child, name, std::move(input));
                      }});
  }
  return blocks;
}

std::vector<Block> blocks_of_network(Network& network) {
  auto blocks = network.blocks();
  if (blocks.empty() || !blocks[0].run) return blocks;
  blocks[0].run = [&network](at::Tensor input) { return network.run_block(0, std::move(input)); };
  return blocks;
}

void check_blocks(const torch::nn::Module& module, const std::vector<Block>& blocks) {
  if (blocks.empty()) {
    throw Error(ErrorKind::Options,
                fmt::format("model: expected at least one block, found none in {}", module.name()),
                "add a module to the Sequential, or a block to the list");
  }
  const auto known = names_in(module);
  std::set<std::string> names;
  for (const auto& block : blocks) {
    if (!names.insert(block.name).second) {
      throw Error(ErrorKind::Options,
                  fmt::format("model: two blocks of {} are named '{}'", module.name(), block.name),
                  "give each block a name of its own");
    }
    if (!block.run) {
      throw Error(
          ErrorKind::Options,
          fmt::format("model: block '{}' of {} has nothing to run", block.name, module.name()),
          "set Block::run");
    }
    check_names(module, block, known);
  }
}

std::vector<NamedTensor> tensors_of_block(const torch::nn::Module& module, const Block& block) {
  auto tensors = tensors_of(module);
  std::erase_if(tensors, [&](const NamedTensor& named) {
    return std::none_of(block.modules.begin(), block.modules.end(),
                        [&](const auto& each) { return belongs_to(named.name, each); });
  });
  return tensors;
}

}  // namespace lockstep::nn
