#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "lockstep/nn/grouped_layers.h"
#include "lockstep/nn/model.h"
#include "lockstep/nn/module_blocks.h"
#include "lockstep/nn/module_tensors.h"
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

/// A module as a `Model`: the blocks that it lists, of a `Network` those that were added, of a
/// `torch::nn::Sequential` its children, of any other the whole, "model", by its
/// `at::Tensor forward(at::Tensor)`.
///
/// What is random is drawn for the block and for the number of the call within it. So the layers of
/// a Sequential draw otherwise than they would within one module; where stages begin changes
/// nothing.
template <typename Module>
class ModuleModel : public Model {
 public:
  explicit ModuleModel(std::shared_ptr<Module> module) : module_(std::move(module)) {
    if (module_ == nullptr) refuse_null();
    blocks_ = blocks_of(*module_);
    check_blocks(*module_, blocks_);
  }

  std::vector<std::string> block_names() const override {
    std::vector<std::string> names;
    for (const auto& block : blocks_) names.push_back(block.name);
    return names;
  }

  at::Tensor run_block(std::size_t block, at::Tensor input) override {
    if (auto* const scope = RandomScope::current()) {
      scope->enter_block(static_cast<std::uint32_t>(block));
    }
    return blocks_.at(block).run(std::move(input));
  }

  std::vector<NamedTensor> tensors() const override { return tensors_of(*module_); }
  std::vector<NamedTensor> block_tensors(std::size_t block) const override {
    if (block_source<Module>() == BlockSource::Whole) return tensors();
    return tensors_of_block(*module_, blocks_.at(block));
  }
  void set_mode(Mode mode) override { module_->train(mode == Mode::Train); }
  bool set_grouping(const Grouping& grouping) override { return group_layers(*module_, grouping); }

  /// A copy of the same class, with the same weights.
  std::unique_ptr<Model> clone() const override {
    auto copy = std::dynamic_pointer_cast<Module>(clone_module(*module_));
    if (copy == nullptr) refuse_other_type(*module_);
    return std::make_unique<ModuleModel>(std::move(copy));
  }

 protected:
  std::shared_ptr<Module> module_;

 private:
  std::vector<Block> blocks_;
};

/// A module that a function makes: the function makes its clones, too, so that any module will do.
template <typename Module, typename Make>
class MadeModel final : public ModuleModel<Module> {
 public:
  MadeModel(std::shared_ptr<Module> module, Make make, std::uint64_t seed)
      : ModuleModel<Module>(std::move(module)), make_(std::move(make)), seed_(seed) {}

  std::unique_ptr<Model> clone() const override {
    auto copy = module_in(make_seeded(seed_, make_));
    copy_made_module(*this->module_, *copy);
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
