#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/events/trace_events.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/backends/gpu/gpu_training.h"
#include "lockstep/train/state/state_layout.h"

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
  Step read(const GpuRecord& record) const;
  void count(const Step& step);

  GpuTraining& gpu_;
  const Options& options_;
  const LeafTotals& totals_;
  std::vector<std::int64_t> counts_;  ///< updates, by parameter
  std::optional<StepRange> loaded_;   ///< its samples are on the GPU, or being copied
  double waited_for_data_ = 0;
};

/// The largest number of steps of one launch.
std::int64_t steps_per_launch(const Options& options);

}  // namespace lockstep::train
