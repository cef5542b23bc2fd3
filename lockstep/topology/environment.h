#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep::topology {

/// A set of environment variables: this process's own, or those that a child will get.
///
/// Everything else in lockstep is handed one of these; only this module reads the real environment.
class LOCKSTEP_PRIVATE_API Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables)
      : variables_(std::move(variables)) {}

  static Environment of_this_process();

  std::optional<std::string> get(const std::string& name) const;
  bool has(const std::string& name) const { return variables_.contains(name); }
  void set(const std::string& name, const std::string& value) { variables_[name] = value; }
  void set_if_absent(const std::string& name, const std::string& value) {
    variables_.try_emplace(name, value);
  }
  void remove(const std::string& name) { variables_.erase(name); }

  const std::map<std::string, std::string>& variables() const noexcept { return variables_; }

  /// "NAME=value" for each, as exec wants them.
  std::vector<std::string> to_strings() const;

 private:
  std::map<std::string, std::string> variables_;
};

/// Gives this process a variable, unless it has it, for a library that looks nowhere else. No other
/// thread may look at the environment meanwhile.
LOCKSTEP_PRIVATE_API void set_for_libraries(const std::string& name, const std::string& value);

}  // namespace lockstep::topology
