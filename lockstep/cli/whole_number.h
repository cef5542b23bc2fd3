#pragma once

#include <CLI/CLI.hpp>

#include "lockstep/base/strings.h"

namespace lockstep::cli {

/// For options that take a number from 0 on: CLI11 by itself lets -1 become the largest.
inline CLI::Validator whole_number() {
  return {[](const std::string& text) {
            const auto number = parse_integer(text);
            return number && *number >= 0
                       ? std::string()
                       : "expected a whole number from 0 on, found '" + text + "'";
          },
          ""};
}

}  // namespace lockstep::cli
