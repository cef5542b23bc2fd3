#include "tests/comm/hosts_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/host/member.h"
#include "lockstep/comm/local/local_group.h"
#include "lockstep/comm/tcp/join.h"

namespace lockstep::testing {

using comm::hosts::HostMap;

HostsGroup::HostsGroup(Layout layout, comm::WaitOptions options,
                       std::vector<std::shared_ptr<comm::host::KeptMemory>> kept)
    : layout_(std::move(layout)), options_(std::move(options)), kept_(std::move(kept)) {
  kept_.resize(layout_.size());
  for (const auto& instances : layout_) num_instances_ += static_cast<int>(instances.size());
  for (std::size_t i = 0; i < layout_.size(); ++i) {
    const auto name = std::string(1, static_cast<char>('a' + i));
    listeners_.push_back(comm::tcp::listen_at({"127.0.0.1", 0}));
    hosts_.push_back({name, "127.0.0.1", comm::tcp::port_of(listeners_.back().get()),
                      static_cast<int>(layout_[i].size())});
    memories_.push_back(
        comm::host::JobMemory::create({.num_instances = num_instances_,
                                       .num_local_instances = static_cast<int>(layout_[i].size()),
                                       .host = name}));
  }
}

void HostsGroup::slow_down(std::chrono::milliseconds delay) {
  for (auto& host : hosts_) {
    links_.push_back(std::make_unique<SlowLink>(host.port, delay));
    host.port = links_.back()->port();
  }
}

std::unique_ptr<comm::Transport> HostsGroup::join(int instance) {
  HostMap map;
  for (std::size_t i = 0; i < layout_.size(); ++i) {
    map.hosts.push_back({hosts_[i].name, layout_[i]});
  }
  const int host = map.host_of(instance);
  const auto index = static_cast<std::size_t>(host);
  const bool is_leader = layout_[index].front() == instance;
  return comm::tcp::join(
      {.secret = secret_,
       .session = "test",
       .hosts = hosts_,
       .map = map,
       .host = host,
       .listener = is_leader ? std::optional(listeners_[index].get()) : std::nullopt},
      std::make_shared<comm::host::Member>(memories_[index], instance, options_, kept_[index]));
}

std::string to_string(const HostsGroup::Layout& layout) {
  std::vector<std::string> texts;
  for (const auto& instances : layout) {
    texts.push_back(fmt::format("{}", fmt::join(instances, ",")));
  }
  return fmt::format("{}", fmt::join(texts, "|"));
}

void run_hosts(HostsGroup& group, const std::function<void(comm::Communicator&)>& function) {
  comm::local::run_joined(
      group.num_instances(), [&](int instance) { return group.join(instance); }, function);
}

void run_hosts(const HostsGroup::Layout& layout,
               const std::function<void(comm::Communicator&)>& function,
               const comm::WaitOptions& options) {
  HostsGroup group(layout, options);
  run_hosts(group, function);
}

}  // namespace lockstep::testing
