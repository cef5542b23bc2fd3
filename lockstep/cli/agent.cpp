#include "lockstep/launch/hosts/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/host_watcher.h"
#include "lockstep/comm/tcp/dial.h"
#include "lockstep/launch/engine/engine.h"
#include "lockstep/launch/supervise/warden.h"

namespace lockstep::cli {
namespace {

/// The launcher has the last word on how long a job may take to end.
constexpr events::Seconds kNoLimit{1e6};

/// Standard input and output are the channel to the launcher: from now on nobody else may use them.
launch::Channel take_standard_streams() {
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  launch::Channel channel(std::move(in), std::move(out));
  channel.greet();
  return channel;
}

/// "10.0.0.1 4711,192.168.1.1 4712"; what cannot be read is left out.
std::vector<comm::tcp::SocketAddress> parse_addresses(const std::string& text) {
  std::vector<comm::tcp::SocketAddress> addresses;
  for (const auto one : split(text, ',')) {
    const auto space = std::min(one.find(' '), one.size());
    const auto port = parse_integer(one.substr(std::min(space + 1, one.size())));
    if (port) addresses.emplace_back(std::string(one.substr(0, space)), static_cast<int>(*port));
  }
  return addresses;
}

/// The first that answers. Strangers may keep it from it for a while: the launcher has few places
/// for those who have not proven themselves.
launch::Channel connect_to_launcher(const std::string& addresses, const std::string& secret_text) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{10};
  constexpr std::chrono::seconds kAttempt{3};
  constexpr std::chrono::milliseconds kPause{50};
  const auto secret = comm::tcp::Secret::parse(secret_text);
  if (!secret) {
    throw Error(ErrorKind::Options,
                fmt::format("agent: expected the job's secret in {}, found none that can be read",
                            launch::kAgentSecret),
                "lockstep run --host a,b …, which starts agents by itself");
  }
  const auto launchers = parse_addresses(addresses);
  const auto deadline = Clock::now() + kPatience;
  while (!launchers.empty() && Clock::now() < deadline) {
    for (const auto& launcher : launchers) {
      auto socket = comm::tcp::dial(launcher, *secret, {}, kAttempt);
      if (socket) return {std::move(socket), UniqueFd()};
    }
    std::this_thread::sleep_for(kPause);
  }
  throw Error(ErrorKind::Unavailable,
              fmt::format("agent: the launcher cannot be reached at {}", addresses),
              "check that no firewall stands between the hosts");
}

launch::Channel open_channel(const topology::Environment& environment) {
  if (const auto launcher = environment.get(launch::kAgentLauncher)) {
    return connect_to_launcher(*launcher, environment.get(launch::kAgentSecret).value_or(""));
  }
  if (::isatty(STDIN_FILENO) == 0) return take_standard_streams();
  throw Error(ErrorKind::Options, "agent: expected to be started by the launcher, found a terminal",
              "lockstep run --host a,b …");
}

}  // namespace

int agent(const Invocation& invocation) {
  launch::Signals signals;
  launch::RunDirectory folder(invocation.environment);
  auto channel = open_channel(invocation.environment);
  const auto status = launch::run_under_warden(signals, kNoLimit, [&](int warden) {
    const int code = report_errors([&] {
      HostWatcher watcher(invocation.environment);
      return launch::Agent(std::move(channel), invocation.environment, folder, signals, warden,
                           [&](const launch::WatchedHost& host) { return watcher.report(host); })
          .run();
    });
    folder.remove();
    return code;
  });
  folder.remove();
  return status.shell_code();
}

}  // namespace lockstep::cli
