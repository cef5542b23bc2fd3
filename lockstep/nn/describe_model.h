#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/nn/model_request.h"

namespace lockstep::nn {

/// Free of torch, for whoever shows it.
struct BlockDescription {
  std::string name;
  std::vector<std::int64_t> output;  ///< without the samples
};

struct ModelDescription {
  std::int64_t classes = 0;
  std::int64_t parameters = 0;     ///< numbers that are learned
  std::int64_t buffers = 0;        ///< numbers that are not
  std::int64_t multiply_adds = 0;  ///< of convolutions and matrix products, forward, for a picture
  std::vector<BlockDescription> blocks;
  std::string digest;
};

/// Opens a model, writes its weights to `export_to` if that is not empty, and describes it.
///
/// Errors: those of `open_model` and `save_weights`; a name that cannot be exported to is refused
/// before anything else.
ModelDescription describe_model(const ModelRequest& request, const std::string& export_to);

}  // namespace lockstep::nn
