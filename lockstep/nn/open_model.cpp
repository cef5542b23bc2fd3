#include "lockstep/nn/open_model.h"

#include "lockstep/nn/model_weights.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/script/script_model.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/nn/trial.h"

namespace lockstep::nn {
namespace {

std::unique_ptr<Model> open_untried(const ModelRequest& request) {
  if (request.model.ends_with(".pt")) return load_script(request.model);
  return with_torch_errors("model",
                           [&] { return model_of(make_network(network_request(request))); });
}

}  // namespace

NetworkRequest network_request(const ModelRequest& request) {
  return {.name = request.model,
          .classes = request.classes,
          .size = {request.height, request.width},
          .options = {.channels = request.channels, .seed = request.seed}};
}

OpenedModel open_model(const ModelRequest& request) {
  auto model = open_untried(request);
  const auto classes =
      try_step(*model, {request.samples, request.channels, request.height, request.width});
  if (!request.init_from.empty()) load_weights(*model, request.init_from);
  return {std::move(model), classes};
}

}  // namespace lockstep::nn
