#include "lockstep/launch/supervise/instance_start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/start/spawn.h"

namespace lockstep::launch {
namespace {

constexpr int kPipeBytes = 256 * 1024;

UniqueFd open_log(const std::string& folder, int instance, const char* stream, int restart_count) {
  if (folder.empty()) return {};
  const auto path = fmt::format("{}/instance-{}.{}", folder, instance, stream);
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (restart_count == 0 ? O_TRUNC : 0);
  UniqueFd file(::open(path.c_str(), flags, 0666));
  if (!file) throw io_error("run: --log-dir: " + path);
  return file;
}

/// A pipe whose reading end does not block us, while its writing end is an ordinary one.
Pipe make_output_pipe() {
  auto pipe = make_pipe();
  ::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(pipe.read_end.get(), F_SETPIPE_SZ, kPipeBytes);  // fewer switches; a wish, not a need
  return pipe;
}

/// Instance 0 reads what the launcher was given. A terminal stays with the shell: a process outside
/// the foreground group that read from it would be stopped.
UniqueFd open_stdin(int instance, StartOptions::Input input) {
  if (instance == 0 && input == StartOptions::Input::Launchers && ::isatty(STDIN_FILENO) == 0) {
    if (UniqueFd own(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)); own) return own;
  }
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

InstanceStarter::InstanceStarter(const JobContext& context, StartOptions options,
                                 const Signals& signals)
    : context_(context),
      options_(std::move(options)),
      signals_(signals),
      input_start_(::lseek(STDIN_FILENO, 0, SEEK_CUR)) {
  ::getrlimit(RLIMIT_NOFILE, &original_descriptors_);
  const rlimit most{original_descriptors_.rlim_max, original_descriptors_.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &most);
}

InstanceProcess InstanceStarter::start(const JobPlan& plan, const PlannedInstance& planned,
                                       int restart_count, DeathWatch& deaths) const {
  const int instance = planned.identity.instance;
  auto output_log = open_log(options_.log_dir, instance, "stdout", restart_count);
  auto error_log = open_log(options_.log_dir, instance, "stderr", restart_count);
  auto output = make_output_pipe();
  auto error = make_output_pipe();
  const auto input = open_stdin(instance, options_.input);
  // A job that is started again reads its file from the beginning; a pipe goes on where it was.
  if (restart_count > 0 && input_start_ >= 0) ::lseek(input.get(), input_start_, SEEK_SET);

  std::vector<int> inherited;
  if (context_.kept_memory >= 0) inherited.push_back(context_.kept_memory);
  if (context_.listener >= 0 && planned.identity.local_instance == 0) {
    inherited.push_back(context_.listener);
  }
  auto spawned = spawn({
      .program = options_.program,
      .arguments = options_.arguments,
      .environment = instance_environment(plan, planned, context_, restart_count).to_strings(),
      .stdin_fd = input.get(),
      .stdout_fd = output.write_end.get(),
      .stderr_fd = error.write_end.get(),
      .inherited = inherited,
      .cpus = planned.cpus,
      .signal_mask = signals_.original_mask(),
      .descriptors = original_descriptors_,
  });
  deaths.add(spawned.pid());
  spawned.execute(options_.program);
  return {.instance = instance,
          .host = planned.host,
          .pid = spawned.pid(),
          .started = InstanceProcess::Clock::now(),
          .ended = {},
          .status = std::nullopt,
          .stopped_since = std::nullopt,
          .given_up_after = std::nullopt,
          .standard_output = {instance, events::Stream::Stdout, options_.stdout_mode,
                              std::move(output.read_end), std::move(output_log)},
          .standard_error = {instance, events::Stream::Stderr, options_.stderr_mode,
                             std::move(error.read_end), std::move(error_log)}};
}

}  // namespace lockstep::launch
