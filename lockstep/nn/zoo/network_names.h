#pragma once

#include <array>
#include <string_view>

namespace lockstep::nn {

/// All networks of the zoo, as `--model` takes them. Apart from the zoo, so that a command line can
/// be read without libtorch.
inline constexpr std::array<std::string_view, 12> kNetworkNames{
    "mlp",       "convnet",  "resnet20", "resnet32", "resnet44",  "resnet56",
    "resnet110", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"};

}  // namespace lockstep::nn
