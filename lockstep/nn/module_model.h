#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/nn/model.h"
#include "lockstep/nn/module_blocks.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/random/random_scope.h"

namespace lockstep::nn {

/// The module that a shared pointer or a holder is for; nothing where it is empty.
template <typename Module>
std::shared_ptr<Module> module_in(std::shared_ptr<Module> module) {
  return module;
}
template <typename Module>
std::shared_ptr<Module> module_in(const torch::nn::ModuleHolder<Module>& holder) {
  return holder.is_empty() ? nullptr : holder.ptr();
}

/// The part of `ModuleModel` that is the same for all classes of modules.
class LOCKSTEP_API ModuleModelBase : public Model {
 public:
  std::vector<std::string> block_names() const override;
  at::Tensor run_block(std::size_t block, at::Tensor input) override;
  std::vector<NamedTensor> tensors() const override;
  std::vector<NamedTensor> block_tensors(std::size_t block) const override;
  void set_mode(Mode mode) override;
  bool set_grouping(const Grouping& grouping) override;

 protected:
  /// `module` is owned by the derived class. Errors: `Options` for a null pointer.
  ModuleModelBase(torch::nn::Module* module, BlockSource source);

  /// Called once, by the constructor of the derived class. Errors: those of `check_blocks`.
  void set_blocks(std::vector<Block> blocks);
  /// Errors: `Options` if the module cannot be cloned.
  std::shared_ptr<torch::nn::Module> clone_module() const;
  /// Throws `Options`: the clone of the module is of a base class.
  [[noreturn]] void refuse_clone() const;
  /// Gives a module that the same function made the values of this one.
  /// Errors: `Options` if they are not alike.
  void copy_to(torch::nn::Module& made) const;

 private:
  torch::nn::Module* module_;
  BlockSource source_;
  std::vector<Block> blocks_;
};

/// A module as a `Model`: the blocks that it lists, of a `Network` those that were added, of a
/// `torch::nn::Sequential` its children, of any other the whole, "model", by its
/// `at::Tensor forward(at::Tensor)`.
///
/// What is random is drawn for the block and for the number of the call within it. So the layers of
/// a Sequential draw otherwise than they would within one module; where stages begin changes
/// nothing.
template <typename Module>
class ModuleModel : public ModuleModelBase {
 public:
  explicit ModuleModel(std::shared_ptr<Module> module)
      : ModuleModelBase(module.get(), block_source<Module>()), module_(std::move(module)) {
    set_blocks(blocks_of(*module_));
  }

  /// A copy of the same class, with the same weights.
  std::unique_ptr<Model> clone() const override {
    auto copy = std::dynamic_pointer_cast<Module>(clone_module());
    if (copy == nullptr) refuse_clone();
    return std::make_unique<ModuleModel>(std::move(copy));
  }

 protected:
  std::shared_ptr<Module> module_;
};

/// A module that a function makes: the function makes its clones, too, so that any module will do.
template <typename Module, typename Make>
class MadeModel final : public ModuleModel<Module> {
 public:
  MadeModel(std::shared_ptr<Module> module, Make make, std::uint64_t seed)
      : ModuleModel<Module>(std::move(module)), make_(std::move(make)), seed_(seed) {}

  std::unique_ptr<Model> clone() const override {
    auto copy = module_in(make_seeded(seed_, make_));
    this->copy_to(*copy);
    return std::make_unique<MadeModel>(std::move(copy), make_, seed_);
  }

 private:
  Make make_;
  std::uint64_t seed_;
};

/// A model of a module, or of a holder as `torch::nn::Sequential`.
///
/// Errors: `Options` for a null pointer, and for blocks that cannot be (`check_blocks`).
template <typename Module>
std::unique_ptr<Model> model_of(std::shared_ptr<Module> module) {
  return std::make_unique<ModuleModel<Module>>(std::move(module));
}
template <typename Module>
std::unique_ptr<Model> model_of(const torch::nn::ModuleHolder<Module>& holder) {
  return model_of(module_in(holder));
}

/// A model of what `make()` returns: a shared pointer to a module, or a holder of one. What its
/// constructors draw is of the seed. It is called again for each clone.
///
/// Errors: as `model_of`, and `Options` from `clone`, where it makes another model on each call.
template <typename Make>
std::unique_ptr<Model> made_model(Make make, std::uint64_t seed) {
  const auto first = make_seeded(seed, make);
  using Module = std::remove_cvref_t<decltype(*first)>;
  return std::make_unique<MadeModel<Module, Make>>(module_in(first), std::move(make), seed);
}

}  // namespace lockstep::nn
