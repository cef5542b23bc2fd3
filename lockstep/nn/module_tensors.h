#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "lockstep/nn/model.h"

namespace lockstep::nn {

/// The parameters and buffers of a module, by the names that libtorch gives them.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module);

/// Makes `to`, a module of the same structure, a copy of `from`: values, ties, what requires a
/// gradient, and which parts train.
void copy_module(const torch::nn::Module& from, torch::nn::Module& to);

/// A clone of a module, with its ties.
///
/// Errors: `Options` if it is no `torch::nn::Cloneable`.
std::shared_ptr<torch::nn::Module> clone_module(const torch::nn::Module& module);

/// As `copy_module`, for modules that one function made: `Options` if they are not alike.
void copy_made_module(const torch::nn::Module& from, torch::nn::Module& to);

/// For a clone that is of a base class: `Cloneable` was told another type.
[[noreturn]] void refuse_other_type(const torch::nn::Module& module);

/// For a module that is not there.
[[noreturn]] void refuse_null();

}  // namespace lockstep::nn
