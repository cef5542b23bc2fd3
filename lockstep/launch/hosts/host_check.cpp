#include "lockstep/launch/hosts/host_check.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lockstep/base/version.h"
#include "lockstep/launch/hosts/job_addresses.h"
#include "lockstep/launch/hosts/wire.h"

namespace lockstep::launch {
namespace {

/// For what takes a disk or a way to another host.
constexpr std::chrono::seconds kTimeToAnswer{20};

}  // namespace

bool HostReport::is_good() const {
  return reach_problem.empty() && build_problem.empty() && program_problem.empty() &&
         agent_problem.empty() && route_problems.empty();
}

bool HostReport::has_clock_skew() const {
  return clock_ahead && std::abs(*clock_ahead) > kClockTolerance;
}

HostCheck::HostCheck(AgentPool& pool, const HostsJob& job)
    : pool_(pool), job_(job), facts_(job.hosts.size()) {}

void HostCheck::begin(const std::vector<int>& hosts) {
  for (auto& known : facts_) known.awaits_answer = false;  // what was asked before
  for (const int host : hosts) facts(host) = {};
  phase_ = Phase::Appearing;
  advance();
}

void HostCheck::note(int host, const Message& message) {
  const auto kind = kind_of(message);
  auto& known = facts(host);
  if (kind == "prepared") {
    known.is_prepared = true;
    known.awaits_answer = false;
    known.port = message.at("port").get<int>();
    known.master_port = message.at("master_port").get<int>();
    for (const auto* what : {"folder", "program"}) {
      const auto problem = message.at(what).get<std::string>();
      if (!problem.empty() && known.program_problem.empty()) known.program_problem = problem;
    }
    known.agent_problem = message.at("listener").get<std::string>();
  } else if (kind == "routes") {
    known.awaits_answer = false;
    for (const auto& failure : message.at("failures")) {
      const int index = failure.at("host").get<int>();
      if (index < 0 || index >= pool_.size()) {
        throw std::out_of_range(fmt::format("there is no host {}", index));
      }
      const auto& peer = pool_.link(index);
      known.route_problems.push_back(fmt::format("no way to {} ({}): {}", peer.name, peer.address,
                                                 failure.at("why").get<std::string>()));
    }
  } else if (kind == "error") {
    known.awaits_answer = false;
    known.agent_problem = message.at("text").get<std::string>();
  }
}

void HostCheck::advance() {
  switch (phase_) {
    case Phase::Appearing:
      // The pool knows how long that may take.
      for (int host = 0; host < pool_.size(); ++host) {
        if (pool_.link(host).state == HostLink::State::Starting) return;
      }
      return begin_preparing();
    case Phase::Preparing:
      if (!is_waiting()) begin_connecting();
      return;
    case Phase::Connecting:
      if (!is_waiting()) phase_ = Phase::Done;
      return;
    case Phase::Done:
      return;
  }
}

/// One who is gone is not waited for; one who does not answer in time has a problem.
bool HostCheck::is_waiting() const {
  return Clock::now() < deadline_ && [&] {
    for (int host = 0; host < pool_.size(); ++host) {
      const auto& known = facts_[static_cast<std::size_t>(host)];
      if (known.awaits_answer && pool_.is_ready(host)) return true;
    }
    return false;
  }();
}

void HostCheck::compare_builds(int host) {
  const auto& hello = *pool_.link(host).hello;
  auto& problem = facts(host).build_problem;
  if (hello.version != version() || hello.commit != commit()) {
    problem = fmt::format("expected lockstep {} ({}), found {} ({})", version(), commit(),
                          hello.version, hello.commit);
  } else if (hello.build != build_description()) {
    problem = fmt::format("expected the build '{}', found '{}'", build_description(), hello.build);
  }
}

/// An agent of this machine does not know how others reach it.
void HostCheck::choose_addresses() {
  std::vector<int> ready;
  std::vector<std::string> known;
  for (int host = 0; host < pool_.size(); ++host) {
    if (!pool_.is_ready(host)) continue;
    ready.push_back(host);
    known.push_back(pool_.link(host).address);
  }
  const auto chosen = addresses_for_all(std::move(known));
  for (std::size_t i = 0; i < ready.size(); ++i) {
    // One that was prepared before listens where it was told to.
    if (!facts(ready[i]).is_prepared) pool_.link(ready[i]).address = chosen[i];
  }
}

void HostCheck::begin_preparing() {
  phase_ = Phase::Preparing;
  deadline_ = Clock::now() + kTimeToAnswer;
  choose_addresses();
  for (int host = 0; host < pool_.size(); ++host) {
    if (!pool_.is_ready(host) || facts(host).is_prepared) continue;
    compare_builds(host);
    if (facts(host).build_problem.empty()) prepare(host);
  }
  advance();
}

void HostCheck::prepare(int host) {
  facts(host).awaits_answer = true;
  const auto& link = pool_.link(host);
  Message message{{"do", "prepare"},
                  {"job_id", job_.job_id},
                  {"host", host},
                  {"name", link.name},
                  {"address", link.address},
                  {"program", job_.program},
                  {"arguments", job_.arguments},
                  {"folder", job_.folder},
                  {"environment", to_message(job_.environment)},
                  {"log_dir", job_.log_dir},
                  {"grace", job_.grace_period.count()},
                  {"stall_timeout", job_.stall_timeout.count()}};
  // An agent that has connected by itself knows the secret, and the connection is not encrypted.
  const bool is_private = link.channel && link.channel->local_address().empty();
  if (is_private) message["secret"] = job_.secret.to_text();
  pool_.send(host, message);
}

/// Between those that can be asked; what is wrong with the others is known.
void HostCheck::begin_connecting() {
  phase_ = Phase::Connecting;
  deadline_ = Clock::now() + kTimeToAnswer;
  std::vector<int> able;
  auto hosts = Message::array();
  for (int host = 0; host < pool_.size(); ++host) {
    auto& known = facts(host);
    if (known.awaits_answer && pool_.is_ready(host))
      known.agent_problem = "its agent does not answer";
    known.awaits_answer = false;
    known.route_problems.clear();
    if (pool_.is_ready(host) && known.port > 0) able.push_back(host);
  }
  for (const int host : able) {
    const auto& link = pool_.link(host);
    hosts.push_back({{"index", host},
                     {"name", link.name},
                     {"address", link.address},
                     {"port", facts(host).port}});
  }
  for (const int host : able) {
    facts(host).awaits_answer = true;
    pool_.send(host, {{"do", "routes"}, {"hosts", hosts}});
  }
  advance();
}

bool HostCheck::all_are_good() const {
  for (int host = 0; host < pool_.size(); ++host) {
    if (!pool_.is_ready(host)) return false;
  }
  return std::ranges::all_of(reports(), &HostReport::is_good);
}

std::vector<HostReport> HostCheck::reports() const {
  std::vector<HostReport> reports;
  for (int host = 0; host < pool_.size(); ++host) {
    const auto& link = pool_.link(host);
    const auto& known = facts_[static_cast<std::size_t>(host)];
    HostReport report{.name = link.name,
                      .address = link.address,
                      .reach_problem = pool_.is_ready(host) ? "" : link.problem,
                      .build_problem = known.build_problem,
                      .program_problem = known.program_problem,
                      .agent_problem = known.agent_problem,
                      .clock_ahead = link.clock_ahead,
                      .route_problems = known.route_problems};
    if (phase_ == Phase::Done && known.awaits_answer && pool_.is_ready(host)) {
      report.agent_problem = "its agent does not answer";
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<topology::JobHost> HostCheck::hosts() const {
  std::vector<topology::JobHost> hosts;
  for (int host = 0; host < pool_.size(); ++host) {
    const auto& link = pool_.link(host);
    hosts.push_back({.name = link.name,
                     .address = link.address,
                     .port = facts_[static_cast<std::size_t>(host)].port});
  }
  return hosts;
}

}  // namespace lockstep::launch
