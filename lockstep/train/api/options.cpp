#include "lockstep/train/api/options.h"

#include <fmt/format.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/interval.h"
#include "lockstep/topology/environment.h"
#include "lockstep/train/recovery/loop_position.h"

namespace lockstep {
namespace {

void check_at_least_one(std::string_view setter, std::int64_t count) {
  if (count >= 1) return;
  throw Error(ErrorKind::Options,
              fmt::format("Options::{}: expected at least 1, found {}", setter, count));
}

}  // namespace

Options::Options() : Options(World::init()) {}

Options::Options(World world)
    : world_(std::move(world)), position_(std::make_shared<train::LoopPosition>()) {}

void Options::freeze(std::string_view user) const {
  if (frozen_.user.empty()) frozen_.user = user;
}

void Options::check_open(std::string_view setter) const {
  if (frozen_.user.empty()) return;
  throw Error(ErrorKind::Options,
              fmt::format("Options::{}: these options are in use by a {} and cannot be changed",
                          setter, frozen_.user),
              "set all options before they are used, or change a copy");
}

Options& Options::set_count(std::string_view setter, std::int64_t& member, std::int64_t count) {
  check_open(setter);
  check_at_least_one(setter, count);
  return set(setter, member, count);
}

void Options::check_not_launched(std::string_view setter, const std::string& what,
                                 const char* flag) const {
  if (!world_.launched()) return;
  throw Error(ErrorKind::Options, fmt::format("Options::{}: {} set by the launcher", setter, what),
              launchers_hint(flag));
}

/// Only the launcher of lockstep accepts the flag.
std::string Options::launchers_hint(const std::string& flag) const {
  return world_.launched_by() == topology::LaunchedBy::Lockstep
             ? fmt::format("pass {} to it instead", flag)
             : fmt::format("start it with 'lockstep run {}'", flag);
}

Options& Options::replicas(int count) {
  check_open("replicas");
  check_at_least_one("replicas", count);
  const auto set = world_.num_replicas();
  check_not_launched("replicas", fmt::format("{} replica{}", set, set == 1 ? " is" : "s are"),
                     "--num-replicas");
  replicas_ = count;
  return *this;
}

Options& Options::threads_per_device(int threads) {
  check_open("threads_per_device");
  check_at_least_one("threads_per_device", threads);
  if (const auto set = world_.identity().threads_per_device) {
    check_not_launched("threads_per_device",
                       fmt::format("{} thread{} a device {}", *set, *set == 1 ? "" : "s",
                                   *set == 1 ? "is" : "are"),
                       "--threads-per-device");
  }
  threads_per_device_ = threads;
  return *this;
}

Options& Options::devices_per_replica(int count) {
  check_open("devices_per_replica");
  check_at_least_one("devices_per_replica", count);
  const auto set = world_.devices_per_replica();
  check_not_launched(
      "devices_per_replica",
      fmt::format("{} device{} per replica {}", set, set == 1 ? "" : "s", set == 1 ? "is" : "are"),
      "--devices-per-replica");
  devices_per_replica_ = count;
  return *this;
}

Options& Options::begin_stage(const std::string& block) {
  check_open("begin_stage");
  stage_beginnings_.push_back(block);
  return *this;
}

int Options::devices_per_replica() const {
  const int named = static_cast<int>(stage_beginnings_.size()) + 1;
  const bool is_set = world_.launched() || devices_per_replica_;
  if (!is_set) return named;
  const int devices = devices_per_replica_.value_or(world_.devices_per_replica());
  if (named == 1 || named == devices) return devices;
  throw Error(ErrorKind::Options,
              fmt::format("Options::begin_stage: expected {} of them for {} devices per replica, "
                          "found {}",
                          devices - 1, devices, named - 1),
              world_.launched() ? launchers_hint(fmt::format("--devices-per-replica {}", named))
                                : fmt::format("devices_per_replica({})", named));
}

Options& Options::deterministic() {
  set("deterministic", is_deterministic_, true);
  // cuBLAS computes the same bits only if this variable fixes the size of its workspaces.
  topology::set_for_libraries("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  return *this;
}

Options& Options::precision(Precision precision, Half half) {
  check_open("precision");
  precision_ = precision;
  half_ = half;
  return *this;
}

Options& Options::loss_scale(double scale) {
  check_open("loss_scale");
  int exponent = 0;
  if (!std::isfinite(scale) || scale < 1 || scale > 0x1p60 || std::frexp(scale, &exponent) != 0.5) {
    throw Error(
        ErrorKind::Options,
        fmt::format("Options::loss_scale: expected a power of two from 1 on, found {}", scale));
  }
  loss_scale_ = scale;
  return *this;
}

Options& Options::schedule(const Schedule& schedule, std::int64_t epochs) {
  check_open("schedule");
  check_at_least_one("schedule", epochs);
  // The number of steps of an epoch is not known yet. With this many, any part of an epoch has
  // some.
  check(schedule, {.steps_per_epoch = 1'000'000, .epochs = epochs});
  schedule_ = schedule;
  epochs_ = epochs;
  return *this;
}

Options& Options::output(OutputMode mode, std::int64_t every_n) {
  check_open("output");
  check_at_least_one("output", every_n);
  output_ = mode;
  output_every_ = every_n;
  return *this;
}

Options& Options::checkpoints(const CheckpointOptions& checkpoints) {
  check_open("checkpoints");
  if (checkpoints.folder.empty()) {
    throw Error(ErrorKind::Options, "Options::checkpoints: expected a folder, found none",
                R"(.folder = "checkpoints")");
  }
  check_at_least_one("checkpoints", checkpoints.keep_last);
  checkpoint::parse_interval("Options::checkpoints", checkpoints.every);
  checkpoints_ = checkpoints;
  return *this;
}

Options& Options::must_match(const std::string& name, const std::string& value) {
  check_open("must_match");
  to_match_.emplace_back(name, value);
  return *this;
}

}  // namespace lockstep
