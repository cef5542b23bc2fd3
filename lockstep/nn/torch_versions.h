#pragma once

#include <torch/nn/module.h>

#include <type_traits>

namespace lockstep::nn {

/// What differs between libtorch 1.13 and 2.x, so that nothing else has to know.

template <typename Class, typename Result, typename Argument>
std::remove_cvref_t<Argument> argument_of(Result (Class::*)(Argument) const);

/// `c10::optional<torch::Device>`, or `std::optional`.
using OptionalDevice = decltype(argument_of(&torch::nn::Module::clone));

}  // namespace lockstep::nn
