#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::nn {

/// Which model, and what for, as a command line says it.
struct ModelRequest {
  std::string model = "resnet20";  ///< a name of the zoo, or a TorchScript file: `*.pt`
  std::int64_t classes = 10;       ///< for the zoo; a TorchScript file has its own
  std::int64_t channels = 3;
  std::int64_t height = 32;
  std::int64_t width = 32;
  std::uint64_t seed = 0;
  std::int64_t samples = 2;  ///< with how many pictures it is tried
  std::string init_from{};   ///< a weight file, or nothing

  std::vector<std::int64_t> picture() const { return {channels, height, width}; }
};

}  // namespace lockstep::nn
