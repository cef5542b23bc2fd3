#pragma once

#include <torch/script.h>

#include <string>

namespace lockstep::nn {

/// Looks through everything that a TorchScript module may call, and lets what tracing recorded as
/// `training=True` follow the module's mode.
///
/// Errors: `Data`, which `where` begins, if the module was traced for evaluation, or sets a seed.
void make_graph_trainable(const torch::jit::Module& module, const std::string& where);

}  // namespace lockstep::nn
