#include "lockstep/monitor/status/status_publisher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/fnv.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/launch/discover/host_discovery.h"

namespace lockstep::monitor {
namespace {

using Clock = std::chrono::steady_clock;

/// As much of a collective's name as the page has room for.
constexpr std::size_t kLongestName = 64;

std::string own_command() {
  auto command = read_file("/proc/self/cmdline");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::ranges::replace(command, '\0', ' ');
  return command;
}

double own_start_time() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - process_age();
}

/// What the launcher calls the job. Other launchers tell no name, but something that all instances
/// of the job have alike.
std::string job_name(const topology::Identity& identity) {
  if (!identity.job_id.empty() || identity.session.empty()) return identity.job_id;
  return fmt::format("{:012x}", Fnv().add(identity.session).value() & 0xffff'ffff'ffff);
}

InstanceFacts gather_facts(const topology::Identity& identity, DeviceKind device_kind) {
  const int process = ::getpid();
  return {.job = job_name(identity),
          .host = launch::name_of_this_host(identity),
          .user = user_name(::getuid()),
          .command = own_command(),
          .process = process,
          .start_ticks = process_counters(process).value_or(ProcessCounters{}).start_ticks,
          .start_time = own_start_time(),
          .instance = identity.instance,
          .num_instances = identity.num_instances,
          .restart_count = identity.restart_count,
          .replicas = identity.local_replicas,
          .num_replicas = identity.num_replicas,
          .devices_per_replica = identity.devices_per_replica,
          .threads_per_device = identity.threads_per_device.value_or(0),
          .device_kind = device_kind,
          .device_ids = identity.device_ids};
}

}  // namespace

StatusPublisher::StatusPublisher(const topology::Identity& identity,
                                 const topology::Environment& environment, DeviceKind device_kind)
    : owner_(::getpid()) {
  state_.collective.reserve(kLongestName);
  try {
    facts_ = gather_facts(identity, device_kind);
    const auto folder = open_folder(identity, environment);
    page_ = std::make_unique<StatusPage>(folder, facts_);
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
  const auto now = Clock::now();
  rate_.restart(now);
  const std::lock_guard lock(mutex_);
  publish(now);
}

StatusPublisher::~StatusPublisher() {
  page_.reset();
  if (own_folder_ && owner_ == ::getpid()) own_folder_->remove();
}

/// The job's folder; where there is none, one for this process.
std::string StatusPublisher::open_folder(const topology::Identity& identity,
                                         const topology::Environment& environment) {
  if (!identity.run_dir.empty()) return identity.run_dir;
  own_folder_.emplace(environment);
  own_folder_->create();
  if (facts_.job.empty()) facts_.job = own_folder_->job_id();
  return own_folder_->path();
}

void StatusPublisher::publish(RateMeter::TimePoint now) noexcept {
  if (!page_) return;
  state_.updated_ns = now.time_since_epoch().count();
  page_->write(state_);
}

void StatusPublisher::enter(Phase phase) noexcept {
  const std::lock_guard lock(mutex_);
  if (state_.phase == phase) return;
  const auto now = Clock::now();
  // An evaluation does not make the steps before it slower.
  if (phase == Phase::Training) rate_.restart(now);
  state_.phase = phase;
  publish(now);
}

void StatusPublisher::on(const events::StepsDone& event) noexcept {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  state_.epoch = event.epoch;
  state_.step = event.step;
  state_.steps_of_epoch = event.steps_of_epoch;
  state_.samples += event.samples;
  state_.loss = event.loss;
  state_.accuracy = event.accuracy;
  state_.seconds += event.seconds;
  rate_.add(event.samples, now);
  state_.samples_per_second = rate_.per_second();
  publish(now);
}

void StatusPublisher::enter_collective(std::string_view name) noexcept {
  const std::lock_guard lock(mutex_);
  state_.collective.assign(name.substr(0, kLongestName));
  state_.is_in_collective = true;
  ++state_.collectives;
  publish(Clock::now());
}

void StatusPublisher::leave_collective() noexcept {
  const std::lock_guard lock(mutex_);
  state_.is_in_collective = false;
  publish(Clock::now());
}

void StatusPublisher::note_device_memory(std::int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  state_.device_memory_bytes = bytes;
  publish(Clock::now());
}

}  // namespace lockstep::monitor
