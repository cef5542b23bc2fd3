#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>

#include "lockstep/base/strings.h"

namespace lockstep::cli {

/// For options that take a number from 0 or 1 on: CLI11 by itself lets -1 become the largest.
inline CLI::Validator whole_number(std::int64_t least = 0) {
  return {[least](const std::string& text) {
            const auto number = parse_integer(text);
            return number && *number >= least
                       ? std::string()
                       : "expected a whole number from " + std::to_string(least) + " on, found '" +
                             text + "'";
          },
          ""};
}

}  // namespace lockstep::cli
