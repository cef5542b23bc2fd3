#include "lockstep/optimizer/parameter_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::optimizer {
namespace {

/// Takes each `*` as short as it goes, and goes back to the last one to take a letter more.
bool fits(std::string_view pattern, std::string_view name) {
  auto star = std::string_view::npos;
  std::size_t p = 0, n = 0, after_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool fits(const ParameterGroup& group, const ParameterFacts& parameter) {
  return std::ranges::any_of(group.names, [&](const std::string& pattern) {
    return std::ranges::any_of(parameter.names,
                               [&](const std::string& name) { return fits(pattern, name); });
  });
}

/// The part of a name that stands where a pattern has letters: its beginning, or its end where
/// the pattern begins with a `*`.
std::string comparable(std::string_view pattern, const std::string& name) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return name;
  if (star > 0) return name.substr(0, star);
  const auto letters = pattern.size() - pattern.rfind('*') - 1;
  return name.substr(name.size() - std::min(letters, name.size()));
}

/// A name that is near to one of the patterns; failing that, any.
std::string hint_for(const ParameterGroup& group, std::span<const ParameterFacts> parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) {
    names.insert(names.end(), parameter.names.begin(), parameter.names.end());
  }
  if (names.empty()) return "there are no parameters";
  for (const std::string_view pattern : group.names) {
    std::vector<std::string> parts;
    for (const auto& name : names) parts.push_back(comparable(pattern, name));
    const auto letters = comparable(pattern, std::string(pattern));
    const auto found = std::ranges::find(parts, closest(letters, parts));
    if (found == parts.end()) continue;
    return fmt::format("did you mean '{}'?",
                       names[static_cast<std::size_t>(found - parts.begin())]);
  }
  return fmt::format("names look like '{}'", names.front());
}

void expect_that_each_fits(const Optimizer& optimizer, std::span<const ParameterFacts> parameters) {
  for (const auto& group : optimizer.groups()) {
    const auto is_in_group = [&](const ParameterFacts& one) { return fits(group, one); };
    if (std::ranges::any_of(parameters, is_in_group)) continue;
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected a group of parameters, found none that fits '{}'",
                            optimizer.name(), fmt::join(group.names, "' or '")),
                hint_for(group, parameters));
  }
}

ParameterSettings settings_of(const Optimizer& optimizer, const ParameterFacts& parameter) {
  const bool has_decay = optimizer.decay() == DecayOf::All || parameter.dimensions >= 2;
  ParameterSettings settings{.lr = optimizer.lr(),
                             .weight_decay = has_decay ? optimizer.weight_decay() : 0};
  const auto group = std::ranges::find_if(
      optimizer.groups(), [&](const ParameterGroup& one) { return fits(one, parameter); });
  if (group == optimizer.groups().end()) return settings;
  return {.lr = group->lr.value_or(settings.lr),
          .weight_decay = group->weight_decay.value_or(settings.weight_decay),
          .frozen = group->frozen};
}

}  // namespace

std::vector<ParameterSettings> settings_of(const Optimizer& optimizer,
                                           std::span<const ParameterFacts> parameters) {
  expect_that_each_fits(optimizer, parameters);
  std::vector<ParameterSettings> settings;
  settings.reserve(parameters.size());
  for (const auto& parameter : parameters) settings.push_back(settings_of(optimizer, parameter));
  return settings;
}

}  // namespace lockstep::optimizer
