#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "lockstep/nn/model.h"
#include "lockstep/nn/module_tensors.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/random/random_scope.h"

namespace lockstep::nn {

/// A module as a `Model`. `Module` has `at::Tensor forward(at::Tensor)`. A `Network` brings its own
/// blocks; any other module is one block, "model".
template <typename Module>
class ModuleModel : public Model {
 public:
  explicit ModuleModel(std::shared_ptr<Module> module) : module_(std::move(module)) {}

  std::vector<std::string> block_names() const override {
    if constexpr (kHasBlocks) {
      std::vector<std::string> names;
      for (const auto& block : module_->blocks()) names.push_back(block.name);
      return names;
    } else {
      return {"model"};
    }
  }

  at::Tensor run_block(std::size_t block, at::Tensor input) override {
    if constexpr (kHasBlocks) {
      return module_->run_block(block, std::move(input));
    } else {
      if (auto* const scope = RandomScope::current()) scope->enter_block(0);
      return module_->forward(std::move(input));
    }
  }

  std::vector<NamedTensor> tensors() const override { return tensors_of(*module_); }
  void set_mode(Mode mode) override { module_->train(mode == Mode::Train); }

  std::unique_ptr<Model> clone() const override {
    auto copy = std::dynamic_pointer_cast<Module>(clone_module(*module_));
    if (copy == nullptr) refuse_other_type(*module_);
    return std::make_unique<ModuleModel>(std::move(copy));
  }

 private:
  static constexpr bool kHasBlocks = std::is_base_of_v<Network, Module>;

  std::shared_ptr<Module> module_;
};

/// A model of a module, or of a holder as `torch::nn::Sequential`.
template <typename Module>
std::unique_ptr<Model> model_of(std::shared_ptr<Module> module) {
  return std::make_unique<ModuleModel<Module>>(std::move(module));
}
template <typename Module>
std::unique_ptr<Model> model_of(const torch::nn::ModuleHolder<Module>& holder) {
  return model_of(holder.ptr());
}

}  // namespace lockstep::nn
