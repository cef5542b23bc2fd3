#pragma once

#include <stdexcept>
#include <string>

#include "lockstep/base/export.h"

namespace lockstep {

/// What went wrong, as far as a caller or a shell script needs to tell cases apart.
/// Each kind has one exit code; `docs/reference/exit-codes.md` lists them.
enum class ErrorKind {
  Options,        ///< a flag, an option or a variable that cannot be meant
  Data,           ///< a data set that is missing, damaged or of another kind
  Unavailable,    ///< something that this build or machine does not offer
  Io,             ///< the operating system refused a read, a write or a process
  Timeout,        ///< a wait that outlived its deadline
  PeerLost,       ///< another instance is gone: a victim, never the cause
  Diverged,       ///< the numbers are no longer numbers
  Stopped,        ///< asked to end, with a checkpoint to go on from: a success of its own kind
  NotExecutable,  ///< a program that is there but cannot be started
  NotFound,       ///< a program that is not there
  Bug,            ///< our own mistake
};

/// The exit code of a process that ends with this kind of error.
LOCKSTEP_API int exit_code(ErrorKind kind) noexcept;

/// The one exception type of lockstep.
///
/// The message reads `where: what was expected, what was found`, with real values; the hint, if
/// any, is something that would work.
class LOCKSTEP_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::string hint = {})
      : std::runtime_error(message), kind_(kind), hint_(std::move(hint)) {}

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  ErrorKind kind_;
  std::string hint_;
};

/// An `Io` error for the current `errno`: "where: No space left on device".
LOCKSTEP_API Error io_error(const std::string& where);

/// The error as a user sees it: `lockstep: …`, and `  try: …` on a second line where there is a
/// hint.
LOCKSTEP_API std::string describe(const Error& error);

}  // namespace lockstep
