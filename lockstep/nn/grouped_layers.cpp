#include "lockstep/nn/grouped_layers.h"

#include <torch/nn/modules/batchnorm.h>

#include "lockstep/nn/layers/batch_norm.h"

namespace lockstep::nn {
namespace {

bool mixes_samples(const torch::nn::Module& layer) {
  return layer.as<torch::nn::BatchNorm1dImpl>() != nullptr ||
         layer.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
         layer.as<torch::nn::BatchNorm3dImpl>() != nullptr;
}

}  // namespace

bool group_layers(torch::nn::Module& module, const Grouping& grouping) {
  bool can_be_told = true;
  for (const auto& layer : module.modules()) {
    if (auto* const norm = layer->as<BatchNormImpl>()) {
      norm->set_groups(grouping.groups, grouping.replicas);
    } else if (mixes_samples(*layer)) {
      can_be_told = grouping.groups == 1;
    }
  }
  return can_be_told;
}

}  // namespace lockstep::nn
