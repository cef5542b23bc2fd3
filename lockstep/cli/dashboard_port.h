#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

inline constexpr int kUsualDashboardPort = 8517;

/// Throws `Options` for what is no port; `where` begins the message.
int parse_port(const std::string& where, const std::string& word);

/// The same arguments, as many, with the usual port made part of each `--dashboard` that has no
/// number behind it: or the parser would take the program that stands there for one.
std::vector<std::string> with_usual_port(std::vector<std::string> arguments);

}  // namespace lockstep::cli
