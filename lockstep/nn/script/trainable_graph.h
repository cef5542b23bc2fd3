#pragma once

#include <torch/script.h>

#include <string>

namespace lockstep::nn {

enum class Origin { Scripted, Traced };

/// Looks through everything that a TorchScript module may call. What tracing recorded as
/// `training=True` follows the module's mode from then on; scripted code says itself what it means,
/// and stays as it is.
///
/// Errors: `Data`, which `where` begins, if the module was traced for evaluation, sets a seed, or
/// forks into threads that know nothing of its replica.
Origin make_graph_trainable(const torch::jit::Module& module, const std::string& where);

}  // namespace lockstep::nn
