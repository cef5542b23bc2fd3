#include "lockstep/topology/cache_folder.h"

#include <fmt/format.h>
#include <unistd.h>

namespace lockstep::topology {

std::string cache_folder(const Environment& environment) {
  const auto value_of = [&](const char* name) { return environment.get(name).value_or(""); };
  if (auto path = value_of("LOCKSTEP_CACHE_PATH"); !path.empty()) return path;
  if (const auto path = value_of("XDG_CACHE_HOME"); !path.empty()) return path + "/lockstep";
  if (const auto home = value_of("HOME"); !home.empty()) return home + "/.cache/lockstep";
  return fmt::format("/tmp/lockstep-{}", ::getuid());
}

}  // namespace lockstep::topology
