#include "lockstep/base/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace lockstep {

int exit_code(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::Options:
      return 2;
    case ErrorKind::Data:
      return 3;
    case ErrorKind::Unavailable:
      return 4;
    case ErrorKind::Io:
      return 5;
    case ErrorKind::Timeout:
      return 6;
    case ErrorKind::PeerLost:
      return 7;
    case ErrorKind::Diverged:
      return 8;
    case ErrorKind::Stopped:
      return 75;  // what sysexits.h has for "try again later"
    case ErrorKind::NotExecutable:
      return 126;
    case ErrorKind::NotFound:
      return 127;
    case ErrorKind::Bug:
      return 70;
  }
  return 70;
}

Error io_error(const std::string& where) {
  const int code = errno;
  return {ErrorKind::Io, fmt::format("{}: {}", where, std::strerror(code))};
}

std::string describe(const Error& error) {
  auto text = fmt::format("lockstep: {}\n", error.what());
  if (!error.hint().empty()) text += fmt::format("  try: {}\n", error.hint());
  return text;
}

}  // namespace lockstep
