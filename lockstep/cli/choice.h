#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// Throws `Options` where a word is none of those that may stand there, with the one that was
/// probably meant. `where` ends in the option's name.
void check_choice(std::string_view where, const std::string& word,
                  std::span<const std::string> choices);

}  // namespace lockstep::cli
