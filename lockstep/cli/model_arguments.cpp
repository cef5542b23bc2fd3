#include "lockstep/cli/model_arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/cli/image_size.h"
#include "lockstep/cli/suggested_words.h"
#include "lockstep/cli/whole_number.h"
#include "lockstep/nn/zoo/network_names.h"

namespace lockstep::cli {

void add_model_options(CLI::App& app, ModelArguments& to) {
  auto& request = to.request;
  app.add_option("--model", request.model,
                 fmt::format("{}, or a TorchScript file that ends in .pt",
                             fmt::join(nn::kNetworkNames, ", ")))
      ->check(suggest(nn::kNetworkNames, "*.pt"))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--classes", request.classes,
                 "number of classes; a TorchScript file contains its own number")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--image-size", to.image_size, "height, width and channels of the images")
      ->type_name("HxWxC")
      ->capture_default_str();
  app.add_option("--seed", request.seed, "seed of the initial weights")
      ->check(whole_number())
      ->capture_default_str();
  app.add_option("--init-from", request.init_from,
                 "weights: a .safetensors file, or a state_dict that torch.save wrote")
      ->type_name("FILE");
}

nn::ModelRequest model_request(const std::string& where, const ModelArguments& written) {
  auto request = written.request;
  const auto size = parse_image_size(where, written.image_size);
  request.height = size.height;
  request.width = size.width;
  request.channels = size.channels;
  return request;
}

}  // namespace lockstep::cli
