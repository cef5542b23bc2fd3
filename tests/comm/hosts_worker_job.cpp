#include "tests/comm/hosts_worker_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/comm/tcp/secret.h"
#include "lockstep/comm/tcp/socket.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace lockstep::testing {
namespace {

std::map<std::string, std::string> variables_of(const topology::Identity& identity) {
  topology::Environment environment;
  topology::write_identity(environment, identity, {"127.0.0.1", 1});
  return environment.variables();
}

}  // namespace

HostsWorkerJob::HostsWorkerJob(std::vector<std::string> arguments, Options options) {
  comm::tcp::Secret::random().write(folder_.path());
  topology::Identity identity;
  identity.job_id = unique_mark("hosts");
  identity.run_dir = folder_.path();
  identity.num_instances = 0;
  identity.stall_timeout = std::chrono::duration<double>(std::stod(options.stall_timeout));
  for (const int count : options.instances) {
    listeners_.push_back(comm::tcp::listen_at({"127.0.0.1", 0}));
    const auto name = std::string(1, static_cast<char>('a' + identity.hosts.size()));
    const int port = comm::tcp::port_of(listeners_.back().get());
    identity.hosts.push_back({name, "127.0.0.1", port, count});
    identity.num_instances += count;
  }
  identity.num_replicas = identity.num_instances;
  std::vector<std::string> command{COMM_WORKER_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  for (std::size_t host = 0; host < options.instances.size(); ++host) {
    const bool stays_away = std::ranges::count(options.hosts_that_stay_away, host) > 0;
    identity.host = static_cast<int>(host);
    identity.num_local_instances = options.instances[host];
    for (int local = 0; local < identity.num_local_instances; ++local, ++identity.instance) {
      identity.local_instance = local;
      identity.local_replicas = {identity.instance, 1};
      const int listener = listeners_[host].get();
      identity.listener = local == 0 ? std::optional(listener) : std::nullopt;
      // The leader alone inherits the socket.
      if (local == 0) ::fcntl(listener, F_SETFD, 0);
      processes_.push_back(
          stays_away ? nullptr
                     : std::make_unique<Subprocess>(
                           command, SubprocessOptions{.environment = variables_of(identity)}));
      ::fcntl(listener, F_SETFD, FD_CLOEXEC);
    }
    if (!stays_away) listeners_[host].reset();
  }
}

void HostsWorkerJob::wait_until_ready() {
  for (auto& process : processes_) ASSERT_TRUE(process->wait_for("ready"));
}

}  // namespace lockstep::testing
