#include "lockstep/topology/environment.h"

#include <unistd.h>

#include <string_view>

namespace lockstep::topology {

Environment Environment::of_this_process() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.set_if_absent(std::string(text.substr(0, equals)),
                              std::string(text.substr(equals + 1)));
  }
  return environment;
}

std::optional<std::string> Environment::get(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> Environment::to_strings() const {
  std::vector<std::string> strings;
  strings.reserve(variables_.size());
  for (const auto& [name, value] : variables_) strings.push_back(name + '=' + value);
  return strings;
}

void set_for_libraries(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
}

}  // namespace lockstep::topology
