#include "lockstep/cli/choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::cli {

void check_choice(std::string_view where, const std::string& word,
                  std::span<const std::string> choices) {
  if (std::find(choices.begin(), choices.end(), word) != choices.end()) return;
  const auto option = where.substr(where.rfind(' ') + 1);
  throw Error(
      ErrorKind::Options,
      fmt::format("{}: expected one of {}, found '{}'", where, fmt::join(choices, ", "), word),
      fmt::format("{} {}", option, closest(word, choices).value_or(choices.front())));
}

}  // namespace lockstep::cli
