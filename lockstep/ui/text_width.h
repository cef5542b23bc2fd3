#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::ui {

/// The columns that a text takes on a terminal, counting each character of UTF-8 as one.
std::size_t width_of(std::string_view text) noexcept;

/// Cut to a number of columns, never within a character.
std::string_view clip(std::string_view text, std::size_t columns) noexcept;

}  // namespace lockstep::ui
