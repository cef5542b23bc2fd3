#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/checkpoint/resume.h"
#include "lockstep/comm/world.h"
#include "lockstep/events/watchers.h"
#include "lockstep/optimizer/precision.h"
#include "lockstep/optimizer/schedule.h"
#include "lockstep/plan/pipeline_schedule.h"

namespace lockstep {

namespace train {
class LoopPosition;
}

/// The hardware that computes replicas.
enum class DeviceKind : std::uint8_t {
  Cpu,   ///< cores of the host
  Cuda,  ///< a GPU for each instance, round robin; instances may share a GPU
};

/// How many micro-batches a GPU computes as one batch. The results are equal within rounding.
enum class Fuse : std::uint8_t {
  Auto,  ///< all of an instance; in deterministic training, all of one replica
  Off,   ///< one
};

/// Where the gradients of several instances with GPUs are added.
enum class GpuTransport : std::uint8_t {
  Auto,  ///< NCCL if each instance has its own GPU, otherwise the host
  Host,  ///< in the memory of the hosts, as for CPUs
  Nccl,  ///< on the GPUs; each instance needs its own GPU
};

constexpr std::string_view name_of(DeviceKind kind) noexcept {
  return kind == DeviceKind::Cpu ? "cpu" : "cuda";
}
constexpr std::string_view name_of(Fuse fuse) noexcept {
  return fuse == Fuse::Auto ? "auto" : "off";
}
constexpr std::string_view name_of(GpuTransport transport) noexcept {
  if (transport == GpuTransport::Host) return "host";
  return transport == GpuTransport::Nccl ? "nccl" : "auto";
}

/// The optimizer steps of an iteration that `TrainingModel::step` returns.
enum class OutputMode : std::uint8_t {
  Final,  ///< the last step
  All,
  Sum,     ///< one entry with the sum over all steps
  EveryN,  ///< every n-th step
};

/// When checkpoints are taken, and which of them are kept.
struct CheckpointOptions {
  std::filesystem::path folder;
  std::string every = "1 epoch";    ///< or "500 steps", "10 min"
  int keep_last = 2;                ///< number of newest checkpoints that are kept
  std::string best_metric = "acc";  ///< also keeps the one with the largest value; empty: none
};

/// Options of a training. Set the options that differ from the default, then make loaders and
/// models from them.
///
/// A value. The first loader or model that is made from the options freezes them: a later call of a
/// setter throws, because it would have no effect. A copy can be changed again.
///
/// Errors: `Options` for an invalid number, for a change after the first use, and for an option
/// that the launcher has set.
class LOCKSTEP_API Options {
 public:
  /// Uses the world of this process: the process alone, or one instance of a job.
  Options();
  explicit Options(World world);

  /// R: replicas of the whole job. Default: 1, or the value of the launcher.
  Options& replicas(int count);
  /// G: micro-batches of an optimizer step.
  Options& gradient_accumulation(std::int64_t count) {
    return set_count("gradient_accumulation", gradient_accumulation_, count);
  }
  /// D: optimizer steps of one call of `TrainingModel::step`.
  Options& device_iterations(std::int64_t count) {
    return set_count("device_iterations", device_iterations_, count);
  }
  /// Default: CPUs.
  Options& device(DeviceKind kind) { return set("device", device_, kind); }
  Options& fuse(Fuse fuse) { return set("fuse", fuse_, fuse); }
  /// Makes GPUs compute the same bits in every run, for any number of instances on a GPU. This is
  /// slower. CPUs always compute the same bits.
  Options& deterministic();
  /// On GPUs: launches between two copies of the state to the memory of the host. A crash loses at
  /// most this number of launches.
  Options& snapshot_every(std::int64_t iterations) {
    return set_count("snapshot_every", snapshot_every_, iterations);
  }
  /// On GPUs: largest number of optimizer steps of an iteration that are launched together. Their
  /// results arrive together, so `TrainingModel::on_step` is called after the last one.
  Options& steps_at_once(std::int64_t steps) {
    return set_count("steps_at_once", steps_at_once_, steps);
  }
  Options& gpu_transport(GpuTransport transport) {
    return set("gpu_transport", gpu_transport_, transport);
  }
  /// On GPUs: keeps the training set in the memory of the GPU, and makes the samples there, with
  /// the same random decisions. The set must fit.
  Options& data_on_device() { return set("data_on_device", has_data_on_device_, true); }
  /// T: threads that compute a replica. Default: the cores of the machine divided by the replicas.
  Options& threads_per_device(int threads);
  /// S: devices over which the blocks of a replica are divided, one stage each. Default: 1, or the
  /// number that `begin_stage` or the launcher sets.
  Options& devices_per_replica(int count);
  /// Begins a stage with this block, such as "layer3.8". Call it for each stage except the first.
  /// Without a call, blocks are measured, and the split whose slowest stage is fastest is used.
  Options& begin_stage(const std::string& block);
  Options& pipeline(PipelineSchedule schedule) { return set("pipeline", pipeline_, schedule); }
  /// Uses less memory and more time.
  Options& recompute(Recompute recompute) { return set("recompute", recompute_, recompute); }
  /// Between hosts: whether gradients are sent while other gradients are still being computed.
  Options& overlap(Overlap overlap) { return set("overlap", overlap_, overlap); }
  Options& reduction(Reduction reduction) { return set("reduction", reduction_, reduction); }
  Options& reduction_order(ReductionOrder order) {
    return set("reduction_order", reduction_order_, order);
  }
  Options& precision(Precision precision, Half half = Half::BF16);
  /// The initial scale of fp16's loss scaling: a power of two.
  Options& loss_scale(double scale);
  Options& schedule(const Schedule& schedule, std::int64_t epochs);
  Options& seed(std::uint64_t seed) { return set("seed", seed_, seed); }
  Options& output(OutputMode mode, std::int64_t every_n = 1);
  /// The folder of the plan cache. Default: the launcher's --cache-path, or the cache of the user.
  Options& cache(const std::filesystem::path& folder) { return set("cache", cache_, folder); }
  /// Takes checkpoints in the background. SIGUSR1 requests one more. SIGTERM also requests one;
  /// then `TrainingModel::step` throws `Stopped` on every instance.
  Options& checkpoints(const CheckpointOptions& checkpoints);
  /// Continues from the newest complete checkpoint. An empty `from` requires a checkpoint, "auto"
  /// starts a new run if there is none, and a path names a checkpoint or a folder of checkpoints.
  Options& resume(const std::string& from = {}) {
    return set("resume", resume_, checkpoint::parse_resume(from));
  }
  /// Adds a value that must be equal when training continues from a checkpoint.
  Options& must_match(const std::string& name, const std::string& value);

  /// Sets the observers of this instance, such as `lockstep monitor` and a trace. They must outlive
  /// all objects that are made from these options, and they do not change the training.
  Options& watch(const events::Watchers& watchers) { return set("watch", watchers_, watchers); }

  const World& world() const noexcept { return world_; }
  std::optional<int> replicas() const noexcept { return replicas_; }
  std::int64_t gradient_accumulation() const noexcept { return gradient_accumulation_; }
  std::int64_t device_iterations() const noexcept { return device_iterations_; }
  DeviceKind device() const noexcept { return device_; }
  Fuse fuse() const noexcept { return fuse_; }
  bool is_deterministic() const noexcept { return is_deterministic_; }
  std::int64_t snapshot_every() const noexcept { return snapshot_every_; }
  std::int64_t steps_at_once() const noexcept { return steps_at_once_; }
  GpuTransport gpu_transport() const noexcept { return gpu_transport_; }
  bool has_data_on_device() const noexcept { return has_data_on_device_; }
  std::optional<int> threads_per_device() const noexcept { return threads_per_device_; }
  /// Errors: `Options` if stages are begun for which the launcher has no devices.
  int devices_per_replica() const;
  const std::vector<std::string>& stage_beginnings() const noexcept { return stage_beginnings_; }
  PipelineSchedule pipeline() const noexcept { return pipeline_; }
  Recompute recompute() const noexcept { return recompute_; }
  Overlap overlap() const noexcept { return overlap_; }
  Reduction reduction() const noexcept { return reduction_; }
  ReductionOrder reduction_order() const noexcept { return reduction_order_; }
  Precision precision() const noexcept { return precision_; }
  Half half() const noexcept { return half_; }
  double loss_scale() const noexcept { return loss_scale_; }
  const Schedule& schedule() const noexcept { return schedule_; }
  std::int64_t epochs() const noexcept { return epochs_; }
  std::uint64_t seed() const noexcept { return seed_; }
  OutputMode output() const noexcept { return output_; }
  std::int64_t output_every() const noexcept { return output_every_; }
  const std::filesystem::path& cache() const noexcept { return cache_; }
  const std::optional<CheckpointOptions>& checkpoints() const noexcept { return checkpoints_; }
  const checkpoint::Resume& resume_from() const noexcept { return resume_; }
  const std::vector<std::pair<std::string, std::string>>& to_match() const noexcept {
    return to_match_;
  }
  const events::Watchers& watchers() const noexcept { return watchers_; }
  const std::shared_ptr<train::LoopPosition>& loop_position() const noexcept { return position_; }

  /// Makes the options read-only. A later setter throws, naming `user`.
  void freeze(std::string_view user) const;

 private:
  /// The user that froze the options; a copy has none.
  struct Mark {
    Mark() = default;
    Mark(const Mark& /*other*/) noexcept {}
    Mark& operator=(const Mark& /*other*/) noexcept { return *this; }
    std::string user;
  };
  void check_open(std::string_view setter) const;
  /// Sets a member, for the setter of this name.
  template <typename Value>
  Options& set(std::string_view setter, Value& member, const std::type_identity_t<Value>& value) {
    check_open(setter);
    member = value;
    return *this;
  }
  Options& set_count(std::string_view setter, std::int64_t& member, std::int64_t count);
  void check_not_launched(std::string_view setter, const std::string& what, const char* flag) const;
  std::string launchers_hint(const std::string& flag) const;

  World world_;
  mutable Mark frozen_;
  std::optional<int> replicas_;
  std::int64_t gradient_accumulation_ = 1;
  std::int64_t device_iterations_ = 1;
  DeviceKind device_ = DeviceKind::Cpu;
  Fuse fuse_ = Fuse::Auto;
  bool is_deterministic_ = false;
  std::int64_t snapshot_every_ = 8;
  std::int64_t steps_at_once_ = 8;
  GpuTransport gpu_transport_ = GpuTransport::Auto;
  bool has_data_on_device_ = false;
  std::optional<int> threads_per_device_;
  std::optional<int> devices_per_replica_;
  std::vector<std::string> stage_beginnings_;
  PipelineSchedule pipeline_ = PipelineSchedule::OneForwardOneBackward;
  Recompute recompute_ = Recompute::None;
  Overlap overlap_ = Overlap::On;
  Reduction reduction_ = Reduction::Mean;
  ReductionOrder reduction_order_ = ReductionOrder::Ordered;
  Precision precision_ = Precision::P32_32;
  Half half_ = Half::BF16;
  double loss_scale_ = 65536;
  Schedule schedule_;
  std::int64_t epochs_ = 1;
  std::uint64_t seed_ = 0;
  OutputMode output_ = OutputMode::Final;
  std::int64_t output_every_ = 1;
  std::filesystem::path cache_;
  std::optional<CheckpointOptions> checkpoints_;
  checkpoint::Resume resume_;
  std::vector<std::pair<std::string, std::string>> to_match_;
  events::Watchers watchers_;
  std::shared_ptr<train::LoopPosition> position_;
};

}  // namespace lockstep
