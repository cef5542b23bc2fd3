#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/events/job_events.h"
#include "lockstep/ui/output_channel.h"

namespace lockstep::ui {

/// What stands before each line of an instance.
enum class TagStyle {
  Auto,    ///< "[2] " where there are several instances
  Always,  ///< "[2] "
  Never,
  Mpi,  ///< "[1,2]<stdout>:", as Open MPI writes it
};

enum class Verbosity { Quiet, Normal, Verbose };

struct ConsoleOptions {
  int num_instances = 1;
  TagStyle tags = TagStyle::Auto;
  std::optional<int> only_instance{};  ///< show the output of this one alone
  Verbosity verbosity = Verbosity::Normal;
};

/// Shows a job on a terminal, or in the file or pipe that takes a terminal's place.
///
/// Lines of instances are written whole, each with its tag, to the stream that they came from. A
/// progress line of instance 0 stays at the bottom of a terminal; elsewhere it is written
/// every `kProgressInterval`. The launcher's own messages go to standard error.
class JobConsole final : public events::JobSink {
 public:
  static constexpr std::chrono::seconds kProgressInterval{5};

  JobConsole(const ConsoleOptions& options, int stdout_fd, int stderr_fd);

  void on(const events::InstanceStarted& event) override;
  void on(const events::InstanceOutput& event) override;
  void on(const events::InstanceEnded& event) override;
  void on(const events::InstanceFailed& event) override;
  void on(const events::InstanceStalled& event) override;
  void on(const events::VictimsEnded& event) override;
  void on(const events::JobRestarting& event) override;
  void on(const events::JobShrunk& event) override;
  void on(const events::FaultInjected& event) override;
  void on(const events::HostLate& event) override;
  void on(const events::HostLost& event) override;
  void on(const events::HostsAwaited& event) override;
  void on(const events::JobInterrupted& event) override;
  void on(const events::LeftoversEnded& event) override;
  void on(const events::Warning& event) override;
  void on(const events::JobEnded& event) override;
  void on(const events::JobSummary& summary) override;

  std::vector<int> blocked_on() const override;
  void resume() override;
  int output_error() const override { return out_.error(); }

 private:
  struct Progress {
    std::string text;  ///< with its tag; empty: none is shown
    events::Stream stream = events::Stream::Stdout;
    std::optional<std::chrono::steady_clock::time_point> last_written;
  };

  OutputChannel& channel(events::Stream stream);
  std::string tag(int instance, events::Stream stream) const;
  void write_lines(OutputChannel& channel, std::string_view lines);
  void show_progress(const events::InstanceOutput& event);
  void hide_progress(OutputChannel& about_to_write);
  void redraw_progress();
  void say(const std::string& message);

  ConsoleOptions options_;
  OutputChannel out_;
  std::optional<OutputChannel> separate_err_;  ///< none after `2>&1`: one channel keeps lines whole
  Progress progress_;
  std::string scratch_;
};

/// The report on a failed job, as users read it.
std::string describe(const events::InstanceFailed& failure);

std::string describe(const events::HostLost& event);

/// One line, however many there are.
std::string describe(const events::VictimsEnded& event);

/// "exit code 3" or "killed by SIGSEGV".
std::string describe(const events::ExitStatus& status);

}  // namespace lockstep::ui
