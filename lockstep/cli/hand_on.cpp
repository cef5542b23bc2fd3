#include "lockstep/cli/hand_on.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/cli/bench_systems.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::cli {

void hand_on(const char* program, const std::vector<std::string>& arguments,
             const topology::Environment& environment) {
  const auto path = std::filesystem::path(own_program()).parent_path() / program;
  std::vector<std::string> all{path};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const auto strings = environment.to_strings();
  std::fflush(stdout);
  ::execve(path.c_str(), launch::pointers_to(all).data(), launch::pointers_to(strings).data());
  throw Error(ErrorKind::Unavailable,
              fmt::format("{}: expected beside this program, as {}: {}", program, path.string(),
                          std::strerror(errno)),
              "build or install lockstep as a whole");
}

}  // namespace lockstep::cli
