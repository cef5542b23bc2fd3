#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/checkpoint/resume.h"
#include "lockstep/comm/world.h"
#include "lockstep/events/watchers.h"
#include "lockstep/optimizer/precision.h"
#include "lockstep/optimizer/schedule.h"
#include "lockstep/plan/pipeline_schedule.h"
#include "lockstep/train/api/device_options.h"

namespace lockstep {

namespace train {
class LoopPosition;
}

/// Which of an iteration's optimizer steps `TrainingModel::step` tells about.
enum class OutputMode : std::uint8_t {
  Final,  ///< the last one
  All,
  Sum,     ///< one entry, in which those of all steps are added up
  EveryN,  ///< every n-th one
};

/// Whether and when checkpoints are taken, and which of them stay.
struct CheckpointOptions {
  std::filesystem::path folder;
  std::string every = "1 epoch";    ///< or "500 steps", "10 min"
  int keep_last = 2;                ///< so many stay
  std::string best_metric = "acc";  ///< and the one with the greatest value of it; empty: none
};

/// How a model is trained: set what you want to be otherwise, hand it over, and it stays so.
///
/// A value. The first loader or model that is made from it freezes it: a setter that is called
/// later throws, because it would change nothing. A copy can be changed again.
///
/// Errors: `Options` for a number that cannot be meant, for a change after first use, and for what
/// the launcher has set already.
class LOCKSTEP_API Options {
 public:
  /// For this process, alone or one of many.
  Options();
  explicit Options(World world);

  /// R: replicas of the whole job; 1 unless said otherwise, by you or by the launcher.
  Options& replicas(int count);
  /// G: micro-batches of an optimizer step.
  Options& gradient_accumulation(std::int64_t count);
  /// D: optimizer steps of one call of `TrainingModel::step`.
  Options& device_iterations(std::int64_t count);
  /// What computes; CPUs unless said otherwise.
  Options& device(DeviceKind kind);
  Options& fuse(Fuse fuse);
  /// On GPUs too, the same bits in every run, for any number of instances on one; slower. CPUs
  /// always give that.
  Options& deterministic();
  /// On GPUs: launches after which the state is brought to the host's memory. A crash costs as
  /// many.
  Options& snapshot_every(std::int64_t iterations);
  /// On GPUs: optimizer steps of an iteration that are launched together, at the most. What happens
  /// after a step, as `TrainingModel::on_step`, happens after all of them.
  Options& steps_at_once(std::int64_t steps);
  Options& gpu_transport(GpuTransport transport);
  /// On GPUs: the set that is trained with is kept in the GPU's memory, and samples are made there,
  /// with the same random decisions. It has to fit.
  Options& data_on_device();
  /// T: threads that compute a replica; else the machine's cores divided by the replicas.
  Options& threads_per_device(int threads);
  /// S: devices over which the blocks of a replica are spread, each with a stage of them; 1 unless
  /// said otherwise, by you, by `begin_stage` or by the launcher.
  Options& devices_per_replica(int count);
  /// A stage begins with this block, as "layer3.8". Call it for each but the first; without any,
  /// blocks are measured, and the split whose slowest stage is fastest is taken.
  Options& begin_stage(const std::string& block);
  Options& pipeline(PipelineSchedule schedule);
  /// Less memory for more time.
  Options& recompute(Recompute recompute);
  /// Between hosts: whether gradients are on their way while others are still computed.
  Options& overlap(Overlap overlap);
  Options& reduction(Reduction reduction);
  Options& reduction_order(ReductionOrder order);
  Options& precision(Precision precision, Half half = Half::BF16);
  /// What fp16's loss scaling begins with: a power of two.
  Options& loss_scale(double scale);
  Options& schedule(const Schedule& schedule, std::int64_t epochs);
  Options& seed(std::uint64_t seed);
  Options& output(OutputMode mode, std::int64_t every_n = 1);
  /// Where plans are kept; else the launcher's --cache-path, or the user's cache.
  Options& cache(const std::filesystem::path& folder);
  /// Checkpoints are taken in the background while the model is trained. SIGUSR1 takes one more,
  /// and SIGTERM too, after which `TrainingModel::step` throws `Stopped` on every instance.
  Options& checkpoints(const CheckpointOptions& checkpoints);
  /// Goes on from the newest whole checkpoint: nothing wants one to be there, "auto" begins where
  /// there is none, and a path is that of a checkpoint or of a folder of them.
  Options& resume(const std::string& from = {});
  /// Something else that must be the same when training goes on from a checkpoint.
  Options& must_match(const std::string& name, const std::string& value);

  /// Who looks on while this instance trains: `lockstep monitor`, a trace. They outlive what is
  /// made from these options, and change nothing of it.
  Options& watch(const events::Watchers& watchers);

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
  /// Errors: `Options` where stages begin that the launcher has no devices for.
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

  /// From here on it cannot be changed; `user` is named where somebody tries.
  void freeze(std::string_view user) const;

 private:
  /// Who froze it; nobody in a copy.
  struct Mark {
    Mark() = default;
    Mark(const Mark& /*other*/) noexcept {}
    Mark& operator=(const Mark& /*other*/) noexcept { return *this; }
    std::string user;
  };
  void check_open(std::string_view setter) const;
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
