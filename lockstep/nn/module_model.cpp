#include "lockstep/nn/module_model.h"

#include "lockstep/nn/grouped_layers.h"
#include "lockstep/nn/module_tensors.h"

namespace lockstep::nn {

ModuleModelBase::ModuleModelBase(torch::nn::Module* module, BlockSource source)
    : module_(module), source_(source) {
  if (module_ == nullptr) refuse_null();
}

void ModuleModelBase::set_blocks(std::vector<Block> blocks) {
  blocks_ = std::move(blocks);
  check_blocks(*module_, blocks_);
}

std::vector<std::string> ModuleModelBase::block_names() const {
  std::vector<std::string> names;
  for (const auto& block : blocks_) names.push_back(block.name);
  return names;
}

at::Tensor ModuleModelBase::run_block(std::size_t block, at::Tensor input) {
  if (auto* const scope = RandomScope::current()) {
    scope->enter_block(static_cast<std::uint32_t>(block));
  }
  return blocks_.at(block).run(std::move(input));
}

std::vector<NamedTensor> ModuleModelBase::tensors() const {
  return tensors_of(*module_);
}

std::vector<NamedTensor> ModuleModelBase::block_tensors(std::size_t block) const {
  if (source_ == BlockSource::Whole) return tensors();
  return tensors_of_block(*module_, blocks_.at(block));
}

void ModuleModelBase::set_mode(Mode mode) {
  module_->train(mode == Mode::Train);
}

bool ModuleModelBase::set_grouping(const Grouping& grouping) {
  return group_layers(*module_, grouping);
}

std::shared_ptr<torch::nn::Module> ModuleModelBase::clone_module() const {
  return nn::clone_module(*module_);
}

void ModuleModelBase::refuse_clone() const {
  refuse_other_type(*module_);
}

void ModuleModelBase::copy_to(torch::nn::Module& made) const {
  copy_made_module(*module_, made);
}

}  // namespace lockstep::nn
