#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/events/trace_events.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/backends/gpu/gpu_training.h"
#include "lockstep/train/state/shared_state.h"

namespace lockstep::train {

/// Launches the steps of a training whose state stays on a GPU. A launch has the steps of an
/// iteration, or `Options::steps_at_once` of them. While a launch runs, the samples of the next
/// launch are copied to the GPU.
///
/// Counts updates for the tables that the recorded steps read. One thread at a time.
class ResidentTraining {
 public:
  ResidentTraining(GpuTraining& gpu, const Options& options, const LeafTotals& totals)
      : gpu_(gpu), options_(options), totals_(totals) {}

  /// Continues with a state that has been uploaded.
  void continue_from(const Progress& progress, std::span<const std::int64_t> counts);

  struct Launch {
    const DataLoader::Iteration& iteration;
    std::int64_t first = 0;         ///< step of the iteration
    std::int64_t steps_before = 0;  ///< steps of the training before this launch
    std::function<double(std::int64_t step)> lr_factor;  ///< by step of the training, from 0
    events::SpanSink* spans = nullptr;
  };
  /// The totals of one step, as a sum of leaves would have them.
  struct Step {
    std::vector<float> totals;
    bool is_skipped = false;
  };
  /// Runs as many steps as one launch has, and waits for them.
  std::vector<Step> run(const Launch& launch);

  /// Seconds of the last run in which this thread only waited for samples.
  double waited_for_data() const noexcept { return waited_for_data_; }

 private:
  /// Steps of an iteration that are launched together.
  struct StepRange {
    DataLoader::Iteration iteration{};
    std::int64_t first = 0;
    std::int64_t steps = 0;
  };
  StepRange range_from(const DataLoader::Iteration& iteration, std::int64_t first) const;
  StepRange after(const StepRange& range) const;
  void load(const StepRange& range);
  Step read(const GpuStepResult& record) const;
  void count(const Step& step);

  GpuTraining& gpu_;
  const Options& options_;
  const LeafTotals& totals_;
  std::vector<std::int64_t> counts_;  ///< updates, by parameter
  std::optional<StepRange> loaded_;   ///< its samples are on the GPU, or being copied
  double waited_for_data_ = 0;
};

/// Downloads versions of a state that lives on GPUs into the shared state of the host, which
/// survives a crash.
///
/// A snapshot is downloaded in the background to the place of the next version, and becomes current
/// when it has arrived. If the process dies before, the current version is intact. If several
/// instances have the same state, instance 0 downloads it. All instances make the same calls, on
/// one thread at a time.
class GpuSnapshots {
 public:
  GpuSnapshots(GpuTraining& gpu, comm::Communicator& communicator, SharedState& state)
      : gpu_(gpu), communicator_(communicator), state_(state) {}

  bool is_under_way() const noexcept { return is_under_way_; }
  /// Begins to download the state as it is after all launched work. `progress` is the progress of
  /// that state. Only one download may run at a time.
  void begin(const Progress& progress);
  /// Commits the snapshot if it has arrived.
  void commit_arrived();
  /// Waits for the snapshot, and commits it.
  void finish();

 private:
  bool is_first() const noexcept { return communicator_.rank() == 0; }
  void commit();

  GpuTraining& gpu_;
  comm::Communicator& communicator_;
  SharedState& state_;
  Progress progress_;
  bool is_under_way_ = false;
};

}  // namespace lockstep::train
