#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/export.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/zoo/resnet.h"

namespace lockstep::nn {

/// A small convolutional network for quick runs: three convolutions of 32, 64 and 128 channels with
/// batch norm, the first two followed by pooling, the last by a dropout of a tenth. Blocks: stem,
/// layer1, layer2, head. Pictures have at least 4 x 4 pixels.
LOCKSTEP_API std::shared_ptr<Network> convnet(std::int64_t classes, const ZooOptions& options = {});

/// The size of the pictures that an `mlp` is made for.
struct PictureSize {
  std::int64_t height = 32;
  std::int64_t width = 32;
};

/// A perceptron with two hidden layers of 256 and 128 for quick runs. Blocks: stem, hidden, head.
LOCKSTEP_API std::shared_ptr<Network> mlp(std::int64_t classes, const PictureSize& size = {},
                                          const ZooOptions& options = {});

}  // namespace lockstep::nn
