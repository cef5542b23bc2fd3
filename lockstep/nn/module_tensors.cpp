#include "lockstep/nn/module_tensors.h"

#include <fmt/format.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <typeinfo>

#include "lockstep/base/error.h"

namespace lockstep::nn {

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& entry : module.named_parameters()) {
    tensors.push_back({entry.key(), entry.value(), TensorRole::Parameter});
  }
  for (const auto& entry : module.named_buffers()) {
    tensors.push_back({entry.key(), entry.value(), TensorRole::Buffer});
  }
  return tensors;
}

void copy_module(const torch::nn::Module& from, torch::nn::Module& to) {
  copy_and_tie(tensors_of(from), tensors_of(to));
  // From the outside in: train() reaches all children, and they then set themselves right.
  to.train(from.is_training());
  const auto copies = to.named_modules(std::string(), /*include_self=*/false);
  for (const auto& entry : from.named_modules(std::string(), /*include_self=*/false)) {
    if (const auto* copy = copies.find(entry.key())) (*copy)->train(entry.value()->is_training());
  }
}

namespace {

/// libtorch's own clone of a Sequential numbers modules that had names.
std::shared_ptr<torch::nn::Module> clone_with_names(const torch::nn::Module& module) {
  const auto* const sequential = dynamic_cast<const torch::nn::SequentialImpl*>(&module);
  if (sequential == nullptr || typeid(module) != typeid(torch::nn::SequentialImpl)) {
    return module.clone();
  }
  auto copy = std::make_shared<torch::nn::SequentialImpl>();
  auto child = sequential->begin();
  for (const auto& entry : sequential->named_children()) {
    copy->push_back(entry.key(), (child++)->clone());
  }
  return copy;
}

}  // namespace

std::shared_ptr<torch::nn::Module> clone_module(const torch::nn::Module& module) {
  std::shared_ptr<torch::nn::Module> copy;
  try {
    copy = clone_with_names(module);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::Options,
                fmt::format("model: a replica needs a copy of {}, and there is none: {}",
                            module.name(), error.what_without_backtrace()),
                "derive it from torch::nn::Cloneable, or hand over a function that makes one");
  }
  copy_module(module, *copy);
  return copy;
}

void copy_made_module(const torch::nn::Module& from, torch::nn::Module& to) {
  const auto describe = [](const torch::nn::Module& module) {
    std::vector<std::string> tensors;
    for (const auto& [name, tensor, role] : tensors_of(module)) {
      tensors.push_back(fmt::format("'{}' {}", name, c10::str(tensor.sizes())));
    }
    return tensors;
  };
  const auto before = describe(from);
  const auto now = describe(to);
  const auto [first, second] = std::mismatch(before.begin(), before.end(), now.begin(), now.end());
  if (first != before.end() || second != now.end()) {
    throw Error(ErrorKind::Options,
                fmt::format("model: the function that makes it makes another model on each call: "
                            "first with {}, then with {}",
                            first == before.end() ? "nothing more" : *first,
                            second == now.end() ? "nothing more" : *second),
                "let it return a new module of the same structure each time");
  }
  copy_module(from, to);
}

void refuse_other_type(const torch::nn::Module& module) {
  throw Error(ErrorKind::Options,
              fmt::format("model: a clone of {} is of another type", module.name()),
              fmt::format("derive it from torch::nn::Cloneable<{}>", module.name()));
}

void refuse_null() {
  throw Error(ErrorKind::Options, "model: expected a module, found a null pointer");
}

}  // namespace lockstep::nn
