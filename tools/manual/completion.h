#pragma once

#include <string>

#include "tools/manual/command_tree.h"

namespace lockstep::manual {

std::string bash_completion(const Command& top);
std::string zsh_completion(const Command& top);

}  // namespace lockstep::manual
