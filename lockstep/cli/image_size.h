#pragma once

#include <cstdint>
#include <string>

namespace lockstep::cli {

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
};

/// "32x32x3", or "28x28" with 3 channels. Throws `Options` for anything else; `where` begins the
/// message.
ImageSize parse_image_size(const std::string& where, const std::string& text);

}  // namespace lockstep::cli
