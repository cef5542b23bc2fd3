#pragma once

#include <memory>
#include <string>

#include "lockstep/base/export.h"
#include "lockstep/nn/model.h"

namespace lockstep::nn {

/// A TorchScript module that Python saved (`torch.jit.script` or `torch.jit.trace`, then `save`),
/// as a model of one block.
///
/// TorchScript optimizes a graph by what it saw in its first runs, so that later runs round
/// otherwise; that is off here. What a traced module recorded as "training" follows the mode from
/// here on, and its buffers stay as they are while it evaluates, so that a module traced for
/// training can also be evaluated.
///
/// Errors: `Io` for a file that cannot be read; `Data` for one that is no TorchScript, or cannot be
/// trained, with the reason: frozen, quantized, traced for evaluation, no f32 parameters, more than
/// one input, a seed set or threads forked inside.
LOCKSTEP_API std::unique_ptr<Model> load_script(const std::string& path);

}  // namespace lockstep::nn
