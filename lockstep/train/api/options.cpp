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

void Options::check_not_launched(std::string_view setter, const std::string& what,
                                 const char* flag) const {
  if (!world_.launched()) return;
  throw Error(ErrorKind::Options, fmt::format("Options::{}: {} set by the launcher", setter, what),
              launchers_hint(flag));
}

/// Only our own launcher knows the flag.
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

Options& Options::gradient_accumulation(std::int64_t count) {
  check_open("gradient_accumulation");
  check_at_least_one("gradient_accumulation", count);
  gradient_accumulation_ = count;
  return *this;
}

Options& Options::device_iterations(std::int64_t count) {
  check_open("device_iterations");
  check_at_least_one("device_iterations", count);
  device_iterations_ = count;
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

Options& Options::pipeline(PipelineSchedule schedule) {
  check_open("pipeline");
  pipeline_ = schedule;
  return *this;
}

Options& Options::device(DeviceKind kind) {
  check_open("device");
  device_ = kind;
  return *this;
}

Options& Options::fuse(Fuse fuse) {
  check_open("fuse");
  fuse_ = fuse;
  return *this;
}

Options& Options::deterministic() {
  check_open("deterministic");
  is_deterministic_ = true;
  // cuBLAS gives the same bits where the size of its workspaces is fixed, and asks for it here.
  topology::set_for_libraries("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  return *this;
}

Options& Options::snapshot_every(std::int64_t iterations) {
  check_open("snapshot_every");
  check_at_least_one("snapshot_every", iterations);
  snapshot_every_ = iterations;
  return *this;
}

Options& Options::steps_at_once(std::int64_t steps) {
  check_open("steps_at_once");
  check_at_least_one("steps_at_once", steps);
  steps_at_once_ = steps;
  return *this;
}

Options& Options::gpu_transport(GpuTransport transport) {
  check_open("gpu_transport");
  gpu_transport_ = transport;
  return *this;
}

Options& Options::data_on_device() {
  check_open("data_on_device");
  has_data_on_device_ = true;
  return *this;
}

Options& Options::recompute(Recompute recompute) {
  check_open("recompute");
  recompute_ = recompute;
  return *this;
}

Options& Options::overlap(Overlap overlap) {
  check_open("overlap");
  overlap_ = overlap;
  return *this;
}

Options& Options::reduction(Reduction reduction) {
  check_open("reduction");
  reduction_ = reduction;
  return *this;
}

Options& Options::reduction_order(ReductionOrder order) {
  check_open("reduction_order");
  reduction_order_ = order;
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
  // How many steps an epoch has is not known yet: enough that any part of an epoch is some.
  check(schedule, {.steps_per_epoch = 1'000'000, .epochs = epochs});
  schedule_ = schedule;
  epochs_ = epochs;
  return *this;
}

Options& Options::seed(std::uint64_t seed) {
  check_open("seed");
  seed_ = seed;
  return *this;
}

Options& Options::output(OutputMode mode, std::int64_t every_n) {
  check_open("output");
  check_at_least_one("output", every_n);
  output_ = mode;
  output_every_ = every_n;
  return *this;
}

Options& Options::cache(const std::filesystem::path& folder) {
  check_open("cache");
  cache_ = folder;
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

Options& Options::resume(const std::string& from) {
  check_open("resume");
  resume_ = checkpoint::parse_resume(from);
  return *this;
}

Options& Options::watch(const events::Watchers& watchers) {
  check_open("watch");
  watchers_ = watchers;
  return *this;
}

Options& Options::must_match(const std::string& name, const std::string& value) {
  check_open("must_match");
  to_match_.emplace_back(name, value);
  return *this;
}

}  // namespace lockstep
