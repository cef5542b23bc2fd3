#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::events {

using Seconds = std::chrono::duration<double>;

enum class Stream { Stdout, Stderr };

/// How a process ended: by itself with a code, or by a signal.
struct ExitStatus {
  int code = 0;
  int signal = 0;  ///< 0 where it ended by itself

  bool success() const noexcept { return code == 0 && signal == 0; }
  /// As a shell counts it: 128 + n for signal n.
  int shell_code() const noexcept { return signal != 0 ? 128 + signal : code; }
  bool operator==(const ExitStatus&) const = default;
};

struct InstanceStarted {
  int instance = 0;
  std::string host;
  pid_t pid = 0;
  std::vector<int> cpus;               ///< that it is bound to; empty: it is free
  int attempt = 0;                     ///< how often the job had been started before
  std::optional<std::int64_t> step{};  ///< the job's last one that was complete, where it is known
};

/// An instance has ended, in whatever way.
struct InstanceEnded {
  int instance = 0;
  pid_t pid = 0;
  ExitStatus status;
  Seconds run_time{0};
  std::optional<std::int64_t> step{};  ///< the job's last one that was complete, where it is known
};

/// Output of one instance, as far as it has come in whole lines.
struct InstanceOutput {
  int instance = 0;
  Stream stream = Stream::Stdout;
  std::string_view lines;     ///< zero or more, each with its line feed
  std::string_view progress;  ///< the text that a carriage return shows right now; often none
};

/// The verdict on a failed job, told as soon as it is known: the instance that failed first and by
/// itself.
struct InstanceFailed {
  int instance = 0;
  std::string host;
  pid_t pid = 0;
  ExitStatus status;
  Seconds run_time{0};
  std::vector<std::string> last_error_lines;
  std::optional<Seconds> stopped{};  ///< for so long, so that the launcher gave it up
  std::optional<std::int64_t> step{};
};

/// An instance stood still for longer than it may, and is killed.
struct InstanceStalled {
  int instance = 0;
  pid_t pid = 0;
  Seconds stopped{0};
  std::optional<std::int64_t> step{};
};

/// An instance that ended, or had to be ended, because another one had failed.
struct Victim {
  int instance = 0;
  std::optional<ExitStatus> status;  ///< unset where it did not end even when killed
};

/// What became of the others, once all of them have ended.
struct VictimsEnded {
  int cause = 0;
  std::vector<Victim> victims;
  std::string lost_host{};  ///< where that, and no instance, was the cause
};

struct JobRestarting {
  int restart = 0;  ///< 1 for the first
  int max_restarts = 0;
  std::optional<std::int64_t> step{};  ///< after which it goes on, where its state was kept
  std::optional<int> instance{};       ///< that was the cause; none where a host was
};

/// An instance has failed again and again: the job goes on without its place.
struct JobShrunk {
  int instance = 0;
  int failures = 0;  ///< in a row
  int num_instances = 0;
  std::vector<int> without_cores{};  ///< that only it had used
};

/// The launcher has done harm to an instance, because it was asked to (`--chaos`).
struct FaultInjected {
  int instance = 0;
  std::string kind;     ///< "kill", "stop" or "slow"
  int signal = 0;       ///< that was sent
  Seconds duration{0};  ///< until it may go on; 0: never
  std::optional<std::int64_t> step{};
};

/// Nothing has come from a host for longer than it should take.
struct HostLate {
  std::string host;
  std::string address;
  Seconds silent{0};
};

/// A host is gone, and with it all that ran there: the verdict on a failed job.
struct HostLost {
  std::string host;
  std::string address;
  std::optional<Seconds> silent{};  ///< for so long nothing came; none where its connection ended
  std::string why{};                ///< the connection ended
  std::vector<int> instances{};     ///< that were on it
  std::vector<std::string> last_lines{};  ///< of what had started its agent, or of the agent itself
  std::optional<std::int64_t> step{};
};

/// A job that could be started again has to wait for hosts.
struct HostsAwaited {
  std::vector<std::string> hosts;
  Seconds patience{0};
};

/// The launcher was told to end the job.
struct JobInterrupted {
  int signal = 0;
  Seconds grace{0};  ///< until what is left is killed; 0: now
};

/// Processes that outlived the instances that had started them.
struct LeftoversEnded {
  std::vector<std::string> processes;  ///< "sleep (pid 4711)"
};

/// No process of the job is left.
struct JobEnded {
  int exit_code = 0;  ///< of the launcher
  int restarts = 0;
  Seconds run_time{0};
  std::optional<std::int64_t> step{};
};

/// Something that the user should know, though the job goes on.
struct Warning {
  std::string text;
};

struct JobSummary;

/// What happens to a job, told by `launch` to whoever shows it or writes it down.
///
/// One thread calls it. Output may come faster than a terminal takes it: what the sink cannot pass
/// on at once it keeps, and `blocked_on()` tells what it waits for. The caller reads no more output
/// until those descriptors are writable, and then calls `resume()`.
class JobSink {
 public:
  virtual ~JobSink() = default;

  virtual void on(const InstanceStarted& event) = 0;
  virtual void on(const InstanceOutput& event) = 0;
  virtual void on(const InstanceEnded& event) = 0;
  virtual void on(const InstanceFailed& event) = 0;
  virtual void on(const InstanceStalled& event) = 0;
  virtual void on(const VictimsEnded& event) = 0;
  virtual void on(const JobRestarting& event) = 0;
  virtual void on(const JobShrunk& event) = 0;
  virtual void on(const FaultInjected& event) = 0;
  virtual void on(const HostLate& event) = 0;
  virtual void on(const HostLost& event) = 0;
  virtual void on(const HostsAwaited& event) = 0;
  virtual void on(const JobInterrupted& event) = 0;
  virtual void on(const LeftoversEnded& event) = 0;
  virtual void on(const Warning& event) = 0;
  virtual void on(const JobEnded& event) = 0;
  /// Comes last, from a sink that has kept account (`JobLog`).
  virtual void on(const JobSummary& summary) = 0;

  virtual std::vector<int> blocked_on() const = 0;
  virtual void resume() = 0;

  /// Why standard output cannot be written any more: an errno, EPIPE where the reader is gone as in
  /// `lockstep run … | head -1`; 0 while all is well.
  virtual int output_error() const = 0;
};

}  // namespace lockstep::events
