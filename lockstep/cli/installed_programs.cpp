#include "lockstep/cli/installed_programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::cli {

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

std::string program_beside(const std::string& program, const std::string& hint) {
  const auto path = std::filesystem::path(own_program()).parent_path() / program;
  if (::access(path.c_str(), X_OK) == 0) return path.string();
  throw Error(ErrorKind::Unavailable,
              fmt::format("{}: expected beside this program, as {}: {}", program, path.string(),
                          std::strerror(errno)),
              hint);
}

}  // namespace lockstep::cli
