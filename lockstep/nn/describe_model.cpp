#include "lockstep/nn/describe_model.h"

#include <torch/types.h>

#include "lockstep/nn/model_weights.h"
#include "lockstep/nn/multiply_adds.h"
#include "lockstep/nn/open_model.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/weights/weight_file.h"

namespace lockstep::nn {
namespace {

/// Sends pictures through the blocks, evaluating, so that nothing moves.
std::vector<BlockDescription> describe_blocks(Model& model, const ModelRequest& request) {
  const torch::NoGradGuard no_grad;
  model.set_mode(Mode::Evaluate);
  const auto names = model.block_names();
  std::vector<BlockDescription> blocks;
  auto activation = at::zeros({request.samples, request.channels, request.height, request.width});
  for (std::size_t i = 0; i < names.size(); ++i) {
    activation = model.run_block(i, std::move(activation));
    auto output = activation.sizes().vec();
    if (!output.empty()) output.erase(output.begin());
    blocks.push_back({names[i], std::move(output)});
  }
  model.set_mode(Mode::Train);
  return blocks;
}

}  // namespace

ModelDescription describe_model(const ModelRequest& request, const std::string& export_to) {
  if (!export_to.empty()) weights::format_for(export_to);
  const auto [model, classes] = open_model(request);
  ModelDescription description;
  for (const auto& slot : slots_of(model->tensors())) {
    const bool is_learned = slot.role == TensorRole::Parameter;
    (is_learned ? description.parameters : description.buffers) += slot.tensor().numel();
  }
  description.classes = classes;
  description.multiply_adds = with_torch_errors("model", [&, &opened = *model] {
    return count_multiply_adds([&] { description.blocks = describe_blocks(opened, request); }) /
           request.samples;
  });
  description.digest = digest_of(*model);
  if (!export_to.empty()) save_weights(*model, export_to);
  return description;
}

}  // namespace lockstep::nn
