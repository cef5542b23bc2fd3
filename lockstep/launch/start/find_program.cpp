#include "lockstep/launch/start/find_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"

namespace lockstep::launch {
namespace {

enum class Candidate { Missing, Refused, Usable };

Candidate look_at(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Candidate::Missing;
  const bool usable = S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
  return usable ? Candidate::Usable : Candidate::Refused;
}

/// What stands behind "#!" in a script; nothing for anything else.
std::optional<std::string> interpreter_of(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> head{};
  const auto count = file ? ::read(file.get(), head.data(), head.size()) : 0;
  if (count < 3) return std::nullopt;
  const std::string_view text(head.data(), static_cast<std::size_t>(count));
  if (text.substr(0, 2) != "#!") return std::nullopt;
  const auto line = trim(text.substr(2, text.find('\n') - 2));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

void check_interpreter(const std::string& path) {
  const auto interpreter = interpreter_of(path);
  if (!interpreter || look_at(*interpreter) == Candidate::Usable) return;
  throw Error(
      ErrorKind::NotExecutable,
      fmt::format("run: '{}' is a script for '{}', which is not there or not executable", path,
                  *interpreter),
      "correct its first line, or name the interpreter: lockstep run … INTERPRETER " + path);
}

Error refused(const std::string& path) {
  struct stat info {};
  const bool is_folder = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  return {ErrorKind::NotExecutable,
          fmt::format("run: '{}' {}", path,
                      is_folder ? "is a folder, expected a program" : "is not executable"),
          is_folder ? "" : fmt::format("chmod +x {}", path)};
}

}  // namespace

std::string find_program(const std::string& name, const topology::Environment& environment) {
  std::optional<std::string> found;
  std::optional<std::string> refused_path;
  const auto consider = [&](const std::string& path) {
    const auto candidate = look_at(path);
    if (candidate == Candidate::Usable) found = path;
    if (candidate == Candidate::Refused && !refused_path) refused_path = path;
  };

  if (name.find('/') != std::string::npos) {
    consider(name);
  } else if (!name.empty()) {
    const auto path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
    for (const auto folder : split(path, ':')) {
      consider(fmt::format("{}/{}", folder.empty() ? "." : folder, name));
      if (found) break;
    }
  }

  if (found) {
    check_interpreter(*found);
    return *found;
  }
  if (refused_path) throw refused(*refused_path);
  const bool is_here = !name.empty() && name.find('/') == std::string::npos &&
                       look_at("./" + name) != Candidate::Missing;
  throw Error(ErrorKind::NotFound, fmt::format("run: program '{}' was not found", name),
              is_here ? fmt::format("./{}, since this folder is not in PATH", name)
                      : "check the name, or give the path of the program");
}

bool has_program(const std::string& name, const topology::Environment& environment) {
  try {
    find_program(name, environment);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lockstep::launch
