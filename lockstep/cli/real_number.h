#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

namespace lockstep::cli {

enum class RealRange {
  NotNegative,        ///< 0 or more
  Positive,           ///< above 0
  FromZeroToOne,      ///< 0 or more, and below 1
  BetweenZeroAndOne,  ///< above 0 and below 1
};

inline std::string_view describe(RealRange range) noexcept {
  switch (range) {
    case RealRange::NotNegative:
      return "a number of 0 or more";
    case RealRange::Positive:
      return "a number above 0";
    case RealRange::FromZeroToOne:
      return "a number from 0 to below 1";
    case RealRange::BetweenZeroAndOne:
      return "a number between 0 and 1";
  }
  return "a number";
}

inline bool holds(RealRange range, double number) noexcept {
  const bool may_be_zero = range == RealRange::NotNegative || range == RealRange::FromZeroToOne;
  const bool is_below_one =
      range == RealRange::NotNegative || range == RealRange::Positive || number < 1;
  return std::isfinite(number) && (may_be_zero ? number >= 0 : number > 0) && is_below_one;
}

/// For options that take a finite number of a range: CLI11 by itself lets "nan" into any.
inline CLI::Validator real_number(RealRange range) {
  return {[range](const std::string& text) {
            double number = 0;
            const auto* const end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, number);
            const bool is_number = error == std::errc() && stop == end;
            return is_number && holds(range, number)
                       ? std::string()
                       : "expected " + std::string(describe(range)) + ", found '" + text + "'";
          },
          ""};
}

}  // namespace lockstep::cli
