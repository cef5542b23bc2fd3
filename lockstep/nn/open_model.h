#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/nn/model.h"
#include "lockstep/nn/model_request.h"
#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {

/// What the zoo is asked for.
NetworkRequest network_request(const ModelRequest& request);

struct OpenedModel {
  std::unique_ptr<Model> model;
  std::int64_t classes;
};

/// The model, with the weights of its seed, of its TorchScript file, or of `init_from`; tried with
/// pictures of the requested shape.
///
/// Errors: those of `make_network`, `load_script`, `load_weights` and `try_step`.
OpenedModel open_model(const ModelRequest& request);

}  // namespace lockstep::nn
