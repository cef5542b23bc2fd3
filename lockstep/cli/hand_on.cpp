#include "lockstep/cli/hand_on.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/cli/bench_systems.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::cli {
namespace {

Error not_beside(const char* program, const std::filesystem::path& path, int reason) {
  return {ErrorKind::Unavailable,
          fmt::format("{}: expected beside this program, as {}: {}", program, path.string(),
                      std::strerror(reason)),
          "build or install lockstep as a whole"};
}

std::filesystem::path path_beside(const char* program) {
  return std::filesystem::path(own_program()).parent_path() / program;
}

}  // namespace

std::string program_beside(const char* program) {
  const auto path = path_beside(program);
  if (::access(path.c_str(), X_OK) != 0) throw not_beside(program, path, errno);
  return path.string();
}

void hand_on(const char* program, const std::vector<std::string>& arguments,
             const topology::Environment& environment) {
  const auto path = path_beside(program);
  std::vector<std::string> all{path};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const auto strings = environment.to_strings();
  std::fflush(stdout);
  ::execve(path.c_str(), launch::pointers_to(all).data(), launch::pointers_to(strings).data());
  throw not_beside(program, path, errno);
}

}  // namespace lockstep::cli
