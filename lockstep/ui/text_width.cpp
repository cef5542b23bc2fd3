#include "lockstep/ui/text_width.h"

#include <algorithm>

namespace lockstep::ui {
namespace {

bool begins_character(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

}  // namespace

std::size_t width_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string_view clip(std::string_view text, std::size_t columns) noexcept {
  const auto* const end = std::find_if(text.begin(), text.end(), [&](char byte) {
    return begins_character(byte) && columns-- == 0;
  });
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

}  // namespace lockstep::ui
