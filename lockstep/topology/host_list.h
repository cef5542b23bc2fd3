#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::topology {

/// An entry of the launcher's list of machines: a name, and at most so many instances.
struct Host {
  std::string name;
  std::optional<int> slots;  ///< no limit where unset

  bool operator==(const Host&) const = default;
};

/// Reads `a,b:4,node[0-2,4],rack[01-12]n[1,2]:8`.
///
/// A host named again adds slots, and a bare repetition counts one, as in the node files that batch
/// systems write. Throws `Options`, naming the entry.
std::vector<Host> parse_host_list(std::string_view list);

/// Reads one host or host list a line; `#` begins a comment, `name slots=4` means `name:4`.
/// Throws `Options`, naming `file_name` and the line.
std::vector<Host> parse_hostfile(std::string_view text, const std::string& file_name);

}  // namespace lockstep::topology
