#include "lockstep/weights/weight_format.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::weights {

std::string_view name_of(WeightFormat format) noexcept {
  return format == WeightFormat::Safetensors ? "safetensors" : "state dict";
}

WeightFormat format_for(const std::filesystem::path& path) {
  const auto extension = path.extension().string();
  if (extension == ".safetensors") return WeightFormat::Safetensors;
  if (extension == ".pt" || extension == ".pth") return WeightFormat::StateDict;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected a name that ends with .safetensors, .pt or .pth, found {}",
                          path.string(),
                          extension.empty() ? "no extension" : fmt::format("'{}'", extension)),
              fmt::format("{}.safetensors", path.string()));
}

}  // namespace lockstep::weights
