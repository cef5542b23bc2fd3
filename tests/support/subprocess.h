#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep::testing {

using namespace std::chrono_literals;

/// How a process ended, and what it wrote.
struct Finished {
  int exit_code = -1;  ///< 128 + n for signal n, as a shell counts
  int signal = 0;
  std::string out;
  std::string err;
  std::chrono::duration<double> time{0};
  std::chrono::duration<double> cpu_time{
      0};  ///< of the process and the children that it waited for
};

struct SubprocessOptions {
  std::map<std::string, std::string> environment{};  ///< on top of the test's own
  std::string input{};
  bool terminal =
      false;  ///< stdout and stderr are a terminal of 60 columns; both come back in `out`
};

/// A child process of a test, in a process group of its own. `wait` and `wait_for` fail the test
/// when their deadline passes. What is still running in the end is killed with its group.
class Subprocess {
 public:
  explicit Subprocess(std::vector<std::string> command, SubprocessOptions options = {});
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void signal_group(int number) const;

  /// What has been read so far.
  const std::string& out() const { return finished_.out; }
  const std::string& err() const { return finished_.err; }

  /// Types on the terminal: "\x03" is Ctrl-C.
  void type(const std::string& keys) const;

  /// Reads on until stdout or stderr holds the text. False when the deadline passed or it ended
  /// before.
  bool wait_for(const std::string& text, std::chrono::duration<double> deadline = 60s);

  /// Reads on until the process has ended and its output is closed.
  Finished wait(std::chrono::duration<double> deadline = 60s);

  /// Waits for the process to end, without reading.
  bool wait_for_exit(std::chrono::duration<double> deadline);

  void close_stdout() { out_.reset(); }

 private:
  bool read_some(std::chrono::milliseconds timeout);
  bool has_exited();

  pid_t pid_ = -1;
  UniqueFd out_;
  UniqueFd err_;
  Finished finished_;
  std::optional<int> status_;
  std::chrono::steady_clock::time_point started_;
};

/// Runs a command to its end.
Finished run(std::vector<std::string> command, SubprocessOptions options = {});

/// Runs `lockstep` with these arguments to its end.
Finished lockstep(std::vector<std::string> arguments, SubprocessOptions options = {});

/// {"…/lockstep", arguments…}
std::vector<std::string> lockstep_command(std::vector<std::string> arguments);

/// {"run", options…, "sh", "-c", script}
std::vector<std::string> shell(std::vector<std::string> options, const std::string& script);

/// The lines of a text in alphabetical order: instances write in no order among each other.
std::string sorted_lines(const std::string& text);

/// The living processes whose environment holds this "NAME=value", which their children inherit.
std::vector<pid_t> processes_with(const std::string& variable);

/// A value for a variable that no other test uses, not even in another process.
std::string unique_mark(const std::string& name);

/// Whether a thread, or the first thread of a process, sleeps in the kernel until an event wakes
/// it. Returns false if the thread waits for a core, has been stopped or has ended.
bool is_asleep(pid_t thread);

/// Polls until a condition holds; false when the deadline passed.
template <typename Condition>
bool eventually(Condition condition, std::chrono::duration<double> deadline);

void pause_briefly();

template <typename Condition>
bool eventually(Condition condition, std::chrono::duration<double> deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    pause_briefly();
  }
  return true;
}

}  // namespace lockstep::testing
