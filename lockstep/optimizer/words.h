#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::optimizer {

/// The value of an enumeration that a word stands for: its place among `words`.
///
/// Errors: `Options` for another word, with the choices.
template <typename Enum>
Enum parse_word(std::string_view what, std::string_view text,
                std::span<const std::string_view> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return static_cast<Enum>(i);
  }
  const auto meant = closest(text, std::vector<std::string>(words.begin(), words.end()));
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected one of {}, found '{}'", what, fmt::join(words, ", "), text),
              meant ? fmt::format("did you mean '{}'?", *meant) : "");
}

}  // namespace lockstep::optimizer
