#include "lockstep/topology/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::topology {
namespace {

constexpr std::size_t kMostHosts = 10'000;

Error malformed(std::string_view entry, std::string_view expected) {
  return {ErrorKind::Options, fmt::format("host list: '{}': {}", entry, expected),
          "write hosts as a,b:4,node[0-2,4]"};
}

/// Splits at commas that stand outside brackets.
std::vector<std::string_view> split_entries(std::string_view list) {
  std::vector<std::string_view> entries;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') ++depth;
    if (list[i] == ']') --depth;
    if (list[i] == ',' && depth == 0) {
      entries.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  entries.push_back(list.substr(begin));
  return entries;
}

/// One part of a bracket: "3" or "01-12". Leading zeros are kept.
std::vector<std::string> expand_range(std::string_view part, std::string_view entry) {
  const auto dash = part.find('-');
  const auto first_text = part.substr(0, dash);
  const auto last_text = dash == std::string_view::npos ? first_text : part.substr(dash + 1);
  const auto first = parse_integer(first_text);
  const auto last = parse_integer(last_text);
  if (!first || !last || *first < 0 || *last < *first) {
    throw malformed(entry, fmt::format("'{}' is neither a number nor an ascending range", part));
  }
  if (static_cast<std::size_t>(*last - *first) >= kMostHosts) {
    throw malformed(entry, fmt::format("'{}' is more than {} hosts", part, kMostHosts));
  }
  std::vector<std::string> numbers;
  for (auto number = *first; number <= *last; ++number) {
    numbers.push_back(fmt::format("{:0{}}", number, first_text.size()));
  }
  return numbers;
}

/// "rack[0-1]n[1,2]" gives rack0n1, rack0n2, rack1n1, rack1n2.
std::vector<std::string> expand_brackets(std::string_view name, std::string_view entry) {
  const auto open = name.find('[');
  if (open == std::string_view::npos) {
    if (name.find(']') != std::string_view::npos) throw malformed(entry, "']' without '['");
    return {std::string(name)};
  }
  const auto close = name.find(']', open);
  if (close == std::string_view::npos) throw malformed(entry, "'[' without ']'");

  const auto tails = expand_brackets(name.substr(close + 1), entry);
  std::vector<std::string> names;
  for (const auto part : split(name.substr(open + 1, close - open - 1), ',')) {
    const auto numbers = expand_range(part, entry);
    if (names.size() + numbers.size() * tails.size() > kMostHosts) {
      throw malformed(entry, fmt::format("more than {} hosts", kMostHosts));
    }
    for (const auto& number : numbers) {
      for (const auto& tail : tails) {
        names.push_back(fmt::format("{}{}{}", name.substr(0, open), number, tail));
      }
    }
  }
  return names;
}

std::vector<Host> parse_entry(std::string_view entry) {
  auto name = trim(entry);
  std::optional<int> slots;
  if (const auto colon = name.rfind(':'); colon != std::string_view::npos) {
    const auto count = parse_integer(name.substr(colon + 1));
    if (!count || *count < 1 || *count > 1'000'000) {
      throw malformed(entry, fmt::format("'{}' is not a number of instances of at least 1",
                                         name.substr(colon + 1)));
    }
    slots = static_cast<int>(*count);
    name = name.substr(0, colon);
  }
  std::vector<Host> hosts;
  for (auto& expanded : expand_brackets(name, entry)) {
    const bool has_stranger =
        std::any_of(expanded.begin(), expanded.end(), [](unsigned char letter) {
          return std::isalnum(letter) == 0 && letter != '-' && letter != '.' && letter != '_';
        });
    // A leading dash would be taken for an option by the programs that the name is handed to.
    if (expanded.empty() || has_stranger || expanded.front() == '-') {
      throw malformed(entry, "expected a host name of letters, digits, '-', '_' and '.'");
    }
    hosts.push_back({std::move(expanded), slots});
  }
  return hosts;
}

/// A line of Open MPI's, "name slots=4 max_slots=8", as an entry of ours, "name:4".
std::string to_entry(std::string_view line) {
  std::string entry;
  std::string rest;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;) {
    if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) continue;
    if (word.starts_with("slots=")) {
      rest = ":" + word.substr(6);
    } else {
      entry += (entry.empty() ? "" : " ") + word;
    }
  }
  return entry + rest;
}

void merge(std::vector<Host>& hosts, const Host& added) {
  const auto known = std::find_if(hosts.begin(), hosts.end(),
                                  [&](const Host& host) { return host.name == added.name; });
  if (known == hosts.end()) {
    hosts.push_back(added);
  } else {
    known->slots = known->slots.value_or(1) + added.slots.value_or(1);
  }
}

}  // namespace

std::vector<Host> parse_host_list(std::string_view list) {
  std::vector<Host> hosts;
  for (const auto entry : split_entries(list)) {
    for (const auto& host : parse_entry(entry)) merge(hosts, host);
  }
  return hosts;
}

std::vector<Host> parse_hostfile(std::string_view text, const std::string& file_name) {
  std::vector<Host> hosts;
  int line_number = 0;
  for (auto line : split(text, '\n')) {
    ++line_number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    try {
      for (const auto& host : parse_host_list(to_entry(line))) merge(hosts, host);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}:{}: {}", file_name, line_number, error.what()),
                  error.hint());
    }
  }
  if (hosts.empty()) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected at least one host, found none", file_name));
  }
  return hosts;
}

}  // namespace lockstep::topology
