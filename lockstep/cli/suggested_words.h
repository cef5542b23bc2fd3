#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <type_traits>

namespace lockstep::cli {

/// The first part of the name of a validator that `suggest` returns.
inline constexpr std::string_view kSuggestedWords = "suggested words:";

/// A mark for `CLI::Option::check()`: the shell completes these words. `values` are words, or enum
/// values with a `name_of`. `files` is a pattern of files that the option accepts too, or "*/" for
/// folders. The mark accepts every value, because `check_choice` reports wrong words.
template <typename Range>
CLI::Validator suggest(const Range& values, std::string_view files = {}) {
  std::string name(kSuggestedWords);
  for (const auto& value : values) {
    if (!name.ends_with(':')) name += ' ';
    if constexpr (std::is_enum_v<std::remove_cvref_t<decltype(value)>>) {
      name += name_of(value);
    } else {
      name += value;
    }
  }
  if (!files.empty()) name += " " + std::string(files);
  return {[](const std::string&) { return std::string(); }, "", name};
}

}  // namespace lockstep::cli
