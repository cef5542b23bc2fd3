#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The text without white space at either end.
std::string_view trim(std::string_view text);
template <std::same_as<std::string> Temporary>
std::string_view trim(Temporary&& text) = delete;  // would dangle

/// The parts between separators; an empty text has one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
template <std::same_as<std::string> Temporary>
std::vector<std::string_view> split(Temporary&& text, char separator) = delete;  // would dangle

/// The whole text as a decimal number; nothing if it is anything else or does not fit.
std::optional<std::int64_t> parse_integer(std::string_view text);

/// Whether the text is well-formed UTF-8.
bool is_utf8(std::string_view text) noexcept;

/// The text, or where it is no UTF-8, with '?' for each byte that is no ASCII.
std::string to_utf8(std::string text);

/// The same without control characters, in place of which stands '?': whoever wrote it cannot steer
/// a terminal.
std::string printable(std::string text);

/// Ascending numbers in short: "0-3,5". "-" if there are none.
std::string to_ranges(std::span<const int> numbers);

/// The candidate that `word` was probably meant to be; nothing if none is near.
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

}  // namespace lockstep
