#pragma once

#include <string>

#include "tools/manual/command_tree.h"

namespace lockstep::manual {

/// "lockstep-data-pack".
std::string page_name(const Command& command);

/// The man page of a command, in the macros of man(7).
std::string man_page(const Command& command, const std::string& version);

}  // namespace lockstep::manual
