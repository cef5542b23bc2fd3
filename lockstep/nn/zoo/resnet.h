#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/export.h"
#include "lockstep/nn/network.h"

namespace lockstep::nn {

/// What a network of the zoo is made for, beside its classes.
struct ZooOptions {
  std::int64_t channels = 3;
  std::uint64_t seed = 0;  ///< of its first weights
};

/// torchvision's ResNets: their layers, their names of parameters and buffers, their first weights.
/// Blocks: stem, layer1.0, layer1.1, … head. They take pictures of any size.
LOCKSTEP_API std::shared_ptr<Network> resnet18(std::int64_t classes,
                                               const ZooOptions& options = {});
LOCKSTEP_API std::shared_ptr<Network> resnet34(std::int64_t classes,
                                               const ZooOptions& options = {});
LOCKSTEP_API std::shared_ptr<Network> resnet50(std::int64_t classes,
                                               const ZooOptions& options = {});
LOCKSTEP_API std::shared_ptr<Network> resnet101(std::int64_t classes,
                                                const ZooOptions& options = {});
LOCKSTEP_API std::shared_ptr<Network> resnet152(std::int64_t classes,
                                                const ZooOptions& options = {});

/// The ResNets for CIFAR of He et al., "Deep residual learning", 4.2: a 3x3 stem, three stages of
/// 16, 32 and 64 channels, shortcuts without weights. Blocks and names as above.
LOCKSTEP_API std::shared_ptr<Network> resnet20(std::int64_t classes,
                                               const ZooOptions& options = {});
LOCKSTEP_API std::shared_ptr<Network> resnet32(std::int64_t classes,
                                               const ZooOptions& options = {});
LOCKSTEP_API std::shared_ptr<Network> resnet44(std::int64_t classes,
                                               const ZooOptions& options = {});
LOCKSTEP_API std::shared_ptr<Network> resnet56(std::int64_t classes,
                                               const ZooOptions& options = {});
LOCKSTEP_API std::shared_ptr<Network> resnet110(std::int64_t classes,
                                                const ZooOptions& options = {});

}  // namespace lockstep::nn
