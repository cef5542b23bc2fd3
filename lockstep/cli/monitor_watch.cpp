#include "lockstep/cli/monitor_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "lockstep/launch/supervise/signals.h"
#include "lockstep/ui/terminal_screen.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// What is on the screen, and what keys do with it.
class Watch {
 public:
  Watch(monitor::HostSampler& sampler, const WatchOptions& options)
      : sampler_(sampler), options_(options), snapshot_(sampler.sample()) {}

  int run() {
    while (!exit_code_) {
      draw();
      wait();
    }
    return *exit_code_;
  }

 private:
  void draw() {
    auto shown = snapshot_;
    keep_job(shown, options_.job);
    const auto text = monitor_text(
        shown, {.width = static_cast<std::size_t>(screen_.columns()), .order = options_.order});
    screen_.draw(fmt::format("{}\nq quit   s sort: {}   j job: {}", text, name_of(options_.order),
                             options_.job.empty() ? "all" : options_.job));
  }

  /// For a key, a signal, or the time to look again.
  void wait() {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_look_ - Clock::now());
    std::array<pollfd, 2> fds{pollfd{screen_.input(), POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(0, left.count())));
    while (const auto signal = signals_.take()) on_signal(*signal);
    while (const auto key = screen_.take_key()) on_key(*key);
    // Whoever ignores SIGHUP hears of a terminal that is gone in this way alone.
    const bool has_hung_up = (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    if (has_hung_up || screen_.is_gone()) exit_code_ = exit_code_.value_or(128 + SIGHUP);
    if (Clock::now() < next_look_) return;
    snapshot_ = sampler_.sample();
    next_look_ = Clock::now() + options_.interval;
  }

  void on_signal(int signal) {
    if (launch::ends_job(signal)) exit_code_ = 128 + signal;
    if (signal != SIGTSTP) return;
    screen_.leave();
    ::raise(SIGSTOP);
    screen_.enter();
  }

  void on_key(char key) {
    if (key == 'q' || key == 'Q') exit_code_ = exit_code_.value_or(0);
    if (key == 's') options_.order = next_order();
    if (key == 'j') options_.job = next_job();
  }

  ProcessOrder next_order() const {
    const auto next = (static_cast<std::size_t>(options_.order) + 1) % process_order_names().size();
    return static_cast<ProcessOrder>(next);
  }

  /// All jobs, then each of them, then all again.
  std::string next_job() const {
    const auto& jobs = snapshot_.jobs;
    auto next = jobs.begin();
    if (!options_.job.empty()) {
      next = std::ranges::find_if(
          jobs, [&](const auto& job) { return job.id.starts_with(options_.job); });
      if (next != jobs.end()) ++next;
    }
    return next == jobs.end() ? std::string() : next->id;
  }

  monitor::HostSampler& sampler_;
  WatchOptions options_;
  monitor::HostSnapshot snapshot_;
  Clock::time_point next_look_ = Clock::now();
  std::optional<int> exit_code_;
  // Signals first: from the moment that the terminal is ours, none ends us without giving it back.
  launch::Signals signals_;
  ui::TerminalScreen screen_;
};

}  // namespace

void keep_job(monitor::HostSnapshot& snapshot, const std::string& job) {
  if (job.empty()) return;
  const auto is_other = [&](const std::string& id) { return !id.starts_with(job); };
  std::erase_if(snapshot.jobs, [&](const auto& each) { return is_other(each.id); });
  for (auto& device : snapshot.devices) {
    const bool was_used = !device.stages.empty();
    std::erase_if(device.stages, [&](const auto& stage) { return is_other(stage.job); });
    // Cores as another job divides them are nothing to this one.
    if (was_used && device.stages.empty() && device.kind == monitor::DeviceKind::Cpu) {
      device.cpus.clear();
    }
  }
  std::erase_if(snapshot.devices, [](const auto& device) {
    return device.kind == monitor::DeviceKind::Cpu && device.cpus.empty();
  });
}

int watch(monitor::HostSampler& sampler, const WatchOptions& options) {
  return Watch(sampler, options).run();
}

}  // namespace lockstep::cli
