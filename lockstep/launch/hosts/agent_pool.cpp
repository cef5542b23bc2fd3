#include "lockstep/launch/hosts/agent_pool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/signal_name.h"
#include "lockstep/comm/tcp/addresses.h"
#include "lockstep/comm/tcp/socket.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/hosts/job_addresses.h"
#include "lockstep/launch/hosts/wire.h"
#include "lockstep/launch/supervise/descendants.h"

namespace lockstep::launch {
namespace {

using comm::tcp::addresses_of;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kAgentPingInterval{1};

bool mentions(const std::string& line, std::string_view text) {
  return line.find(text) != std::string::npos;
}

/// The line that says best why a host's agent has not come. mpirun wraps it into paragraphs of
/// advice, and ssh may have said something before it.
std::string most_telling(const std::vector<std::string>& lines, const std::string& host) {
  constexpr std::array<std::string_view, 7> kReasons{
      "Permission denied",   "No route to host", "timed out",   "refused",
      "verification failed", "not resolve",      "Host is down"};
  const auto has_reason = [&](const std::string& line) {
    return std::ranges::any_of(kReasons, [&](auto reason) { return mentions(line, reason); });
  };
  const auto is_said = [](const std::string& line) {
    return line.find_first_not_of("- \t\r") != std::string::npos && !line.starts_with("  try:");
  };
  for (const auto& line : lines) {
    if (mentions(line, host) && has_reason(line)) return line;
  }
  const auto names_error = [](const std::string& line) { return mentions(line, "rror"); };
  for (const auto& found :
       {std::ranges::find_if(lines, has_reason), std::ranges::find_if(lines, names_error)}) {
    if (found != lines.end()) return *found;
  }
  const auto last = std::find_if(lines.rbegin(), lines.rend(), is_said);
  return last == lines.rend() ? std::string() : *last;
}

std::string describe(const events::ExitStatus& status) {
  return status.signal != 0 ? "was killed by " + signal_name(status.signal)
                            : fmt::format("ended with code {}", status.code);
}

}  // namespace

AgentPool::AgentPool(const Engine& engine, const std::vector<std::string>& hosts,
                     const comm::tcp::Secret& secret, topology::Environment environment,
                     const sigset_t& signal_mask)
    : engine_(engine),
      secret_(secret),
      environment_(std::move(environment)),
      signal_mask_(signal_mask),
      links_(hosts.size()),
      started_(hosts.size()),
      next_ping_(Clock::now() + kAgentPingInterval) {
  for (std::size_t i = 0; i < hosts.size(); ++i) links_[i].name = hosts[i];
}

void AgentPool::start(const std::vector<int>& hosts) {
  for (const auto& command : engine_.commands(hosts)) {
    auto environment = environment_;
    if (!command.carries_channel) {
      listen();
      environment.set(kAgentLauncher, listener_addresses_);
      environment.set(kAgentSecret, secret_.to_text());
    }
    auto& process = processes_.emplace_back(command, environment, signal_mask_, deaths_);
    for (const int host : command.hosts) {
      const auto name = link(host).name;
      link(host) = {};
      link(host).name = name;
      link(host).state = HostLink::State::Starting;
      link(host).channel = process.take_channel();
      started_[static_cast<std::size_t>(host)] = Clock::now();
    }
  }
}

void AgentPool::listen() {
  if (!listeners_.empty()) return;
  if (addresses_.empty()) {
    for (const auto& link : links_) addresses_.push_back(addresses_of(link.name));
  }
  std::vector<std::string> texts;
  for (const auto& address : listening_addresses(addresses_)) {
    auto socket = comm::tcp::listen_at({address, 0});
    texts.push_back(fmt::format("{} {}", address, comm::tcp::port_of(socket.get())));
    listeners_.emplace_back(
        std::move(socket), secret_, [](const comm::tcp::Payload&) { return true; },
        [this](UniqueFd connection, const comm::tcp::Payload&) {
          strangers_.emplace_back(std::move(connection), UniqueFd());
        });
  }
  listener_addresses_ = fmt::format("{}", fmt::join(texts, ","));
}

std::vector<pollfd> AgentPool::descriptors() const {
  std::vector<pollfd> fds;
  const auto add = [&](const Channel& channel) {
    std::ranges::copy(channel.descriptors(), std::back_inserter(fds));
  };
  for (const auto& link : links_) {
    if (link.channel) add(*link.channel);
  }
  for (const auto& stranger : strangers_) add(stranger);
  for (const auto& process : processes_) fds.push_back({process.output(), POLLIN, 0});
  for (const auto& listener : listeners_) fds.push_back({listener.descriptor(), POLLIN, 0});
  fds.push_back({deaths_.fd(), POLLIN, 0});
  return fds;
}

AgentPool::Clock::time_point AgentPool::next_time() const {
  return next_ping_;
}

std::vector<AgentPool::Arrival> AgentPool::attend() {
  for (auto& listener : listeners_) listener.serve(milliseconds(0));
  for (auto& process : processes_) process.read_output();
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    const auto next = std::next(stranger);
    stranger->flush();
    const auto messages = stranger->receive();
    if (!messages.empty()) {
      adopt(stranger, messages.front());
    } else if (stranger->has_ended()) {
      strangers_.erase(stranger);
    }
    stranger = next;
  }
  std::vector<Arrival> arrivals;
  for (int host = 0; host < size(); ++host) {
    auto& channel = link(host).channel;
    if (!channel) continue;
    channel->flush();
    for (auto& message : channel->receive()) {
      const auto kind = kind_of(message);
      if (kind == "hello") note_hello(host, message);
      if (kind == "pong") note_pong(host, message);
      if (!channel) break;  // it cannot be read
      arrivals.emplace_back(host, std::move(message));
    }
  }
  note_deaths();
  note_ends();
  stop_listening_if_done();
  if (Clock::now() >= next_ping_) {
    next_ping_ = Clock::now() + kAgentPingInterval;
    send_to_all({{"do", "ping"}, {"sent", seconds_of_day()}});
  }
  return arrivals;
}

/// Nothing listens for longer than somebody is to come.
void AgentPool::stop_listening_if_done() {
  if (std::ranges::count(links_, HostLink::State::Starting, &HostLink::state) > 0) return;
  listeners_.clear();
  strangers_.clear();
}

void AgentPool::note_deaths() {
  for (const auto& death : deaths_.take()) {
    for (auto& process : processes_) {
      if (process.pid() == death.pid) process.note_end(death.status);
    }
  }
}

void AgentPool::adopt(std::list<Channel>::iterator stranger, const Message& message) {
  try {
    AgentHello hello;
    hello.name = message.at("name").get<std::string>();
    hello.address = message.at("address").get<std::string>();
    hello.rank = message.at("rank").get<int>();
    const int host = host_of(hello);
    if (host >= 0) {
      link(host).channel.emplace(std::move(*stranger));
      note_hello(host, message);
    }
  } catch (const Message::exception&) {
    // It knows the secret, but is no agent of this version.
  }
  strangers_.erase(stranger);
}

/// Names tell best; then addresses; an engine's own numbers need not follow the list.
int AgentPool::host_of(const AgentHello& hello) const {
  const auto find = [&](const auto& fits) {
    for (int host = 0; host < size(); ++host) {
      if (link(host).state == HostLink::State::Starting && fits(host)) return host;
    }
    return -1;
  };
  int found = find([&](int host) { return is_same_host(link(host).name, hello.name); });
  if (found < 0) {
    found = find([&](int host) {
      const auto& known = addresses_[static_cast<std::size_t>(host)];
      return std::ranges::find(known, hello.address) != known.end();
    });
  }
  return found >= 0 ? found : find([&](int host) { return host == hello.rank || size() == 1; });
}

void AgentPool::note_hello(int host, const Message& message) {
  auto& link = this->link(host);
  const auto text = [&](const char* name) { return message.at(name).get<std::string>(); };
  try {
    link.hello = AgentHello{.version = text("version"),
                            .commit = text("commit"),
                            .build = text("build"),
                            .name = text("name"),
                            .address = text("address"),
                            .rank = message.at("rank").get<int>(),
                            .machine = to_machine(message.at("machine"))};
  } catch (const Message::exception& error) {
    return fail(host, fmt::format("its agent's first words cannot be read: {}", error.what()));
  }
  link.address = link.hello->address;
  link.state = HostLink::State::Ready;
  send(host, {{"do", "ping"}, {"sent", seconds_of_day()}});
}

void AgentPool::note_pong(int host, const Message& message) {
  auto& link = this->link(host);
  const auto now = seconds_of_day();
  try {
    const auto sent = message.at("sent").get<double>();
    const auto time = message.at("time").get<double>();
    const auto round_trip = now - sent;
    // The quickest answer tells best.
    if (link.clock_ahead && round_trip >= link.round_trip) return;
    link.round_trip = round_trip;
    link.clock_ahead = time - (sent + now) / 2;
  } catch (const Message::exception& error) {
    fail(host, fmt::format("its agent says 'pong', which cannot be read: {}", error.what()));
  }
}

EngineProcess* AgentPool::process_of(int host) {
  // The last one that was started for it.
  for (auto process = processes_.rbegin(); process != processes_.rend(); ++process) {
    if (std::ranges::find(process->hosts(), host) != process->hosts().end()) return &*process;
  }
  return nullptr;
}

/// Finds out who has gone, or will not come.
void AgentPool::note_ends() {
  for (int host = 0; host < size(); ++host) {
    auto& link = this->link(host);
    const bool is_starting = link.state == HostLink::State::Starting;
    if (!is_starting && link.state != HostLink::State::Ready) continue;
    auto* process = process_of(host);
    const bool channel_ended = link.channel && link.channel->has_ended();
    const bool process_ended = process != nullptr && process->has_ended();
    const auto waited = Clock::now() - started_[static_cast<std::size_t>(host)];
    if (!is_starting && channel_ended) {
      fail(host, link.channel->why_ended());
    } else if (is_starting && process_ended && (!link.channel || channel_ended)) {
      const auto line = most_telling(process->last_lines(), link.name);
      fail(host, !line.empty()
                     ? line
                     : fmt::format("{} {}", name_of(engine_.kind()), describe(*process->status())));
    } else if (is_starting && waited > kTimeToAppear) {
      fail(host, fmt::format("no agent has answered within {} s", kTimeToAppear.count()));
    }
  }
}

void AgentPool::fail(int host, std::string problem) {
  auto& link = this->link(host);
  link.state = HostLink::State::Gone;
  link.problem = std::move(problem);
  if (const auto* process = process_of(host)) link.last_lines = process->last_lines();
  if (link.last_lines.size() > Tail::kLines) {
    link.last_lines.erase(link.last_lines.begin(),
                          link.last_lines.end() - static_cast<std::ptrdiff_t>(Tail::kLines));
  }
  link.channel.reset();
}

void AgentPool::send(int host, const Message& message) {
  if (link(host).channel) link(host).channel->send(message);
}

void AgentPool::send_to_all(const Message& message) {
  for (int host = 0; host < size(); ++host) send(host, message);
}

AgentPool::Clock::duration AgentPool::silence(int host) const {
  const auto& channel = link(host).channel;
  return channel ? Clock::now() - channel->last_heard() : Clock::duration(0);
}

void AgentPool::give_up(int host) {
  auto* process = process_of(host);
  if (process != nullptr && !process->has_ended() && process->hosts().size() == 1) {
    ::kill(process->pid(), SIGKILL);
  }
  link(host).channel.reset();
  link(host).state = HostLink::State::Gone;
}

void AgentPool::shut_down(milliseconds patience) {
  send_to_all({{"do", "quit"}});
  for (auto& link : links_) link.channel.reset();  // what is no agent may not know the word
  strangers_.clear();
  const auto deadline = Clock::now() + patience;
  const auto has_ended = [](const EngineProcess& process) { return process.has_ended(); };
  while (!std::ranges::all_of(processes_, has_ended) && Clock::now() < deadline) {
    auto fds = descriptors();
    ::poll(fds.data(), fds.size(), 100);
    attend();
  }
  // Whatever is left below this process is the engine's.
  const auto give_up = Clock::now() + kUnkillable;
  while (deaths_.reap_others() && Clock::now() < give_up) {
    kill_descendants();
    pollfd fd{deaths_.fd(), POLLIN, 0};
    ::poll(&fd, 1, static_cast<int>(kKillInterval.count()));
    note_deaths();
  }
  for (auto& link : links_) {
    link.channel.reset();
    link.state = HostLink::State::Absent;
  }
  processes_.clear();
}

}  // namespace lockstep::launch
