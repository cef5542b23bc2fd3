#pragma once

#include <string>

#include "lockstep/nn/model_request.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// The options that say which model is meant, as they are written.
struct ModelArguments {
  nn::ModelRequest request;
  std::string image_size = "32x32x3";
};

void add_model_options(CLI::App& app, ModelArguments& to);

/// Throws `Options` for a size that is none. `where` begins the message.
nn::ModelRequest model_request(const std::string& where, const ModelArguments& written);

}  // namespace lockstep::cli
