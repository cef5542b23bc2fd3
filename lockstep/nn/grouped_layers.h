#pragma once

#include <torch/nn/module.h>

#include "lockstep/nn/model.h"

namespace lockstep::nn {

/// Tells every layer of a module how many micro-batches a batch is. Returns whether all can be
/// told: libtorch's own batch norms cannot.
bool group_layers(torch::nn::Module& module, const Grouping& grouping);

}  // namespace lockstep::nn
