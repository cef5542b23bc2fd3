#include "lockstep/cli/hand_on.h"

#include <unistd.h>

#include <cstdio>

#include "lockstep/base/error.h"
#include "lockstep/cli/installed_programs.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::cli {

void hand_on(const char* program, const std::vector<std::string>& arguments,
             const topology::Environment& environment) {
  const auto path = program_beside(program);
  std::vector<std::string> all{path};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const auto strings = environment.to_strings();
  std::fflush(stdout);
  ::execve(path.c_str(), launch::pointers_to(all).data(), launch::pointers_to(strings).data());
  throw io_error(path);
}

}  // namespace lockstep::cli
