#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/train/data_loader.h"
#include "lockstep/train/gpu_training.h"
#include "lockstep/train/leaf_totals.h"
#include "lockstep/train/train_state.h"

namespace lockstep::train {

/// Steps of a training whose state stays on a GPU from one iteration to the next: as many at a
/// launch as an iteration has. While they run, the samples of the next launch are copied there.
///
/// The host knows how far it is; the rest it has when it was brought home. One thread at a time.
class ResidentTraining {
 public:
  ResidentTraining(GpuTraining& gpu, const Options& options, const StateShape& shape,
                   const LeafTotals& totals);

  /// Of a version of the state that the GPU has now.
  void take_over(const std::byte* state);
  const Progress& progress() const noexcept { return progress_; }
  Progress& progress() noexcept { return progress_; }

  /// What is told of one step: as the sum of leaves tells it.
  struct Step {
    std::vector<float> totals;
    bool is_skipped = false;
  };
  /// Steps from `first` of the iteration on: as many as one launch makes. `factor` is the
  /// schedule's for a step of the training, from 0. `spans` is told what the time went to.
  std::vector<Step> run(const DataLoader::Iteration& iteration, std::int64_t first,
                        const std::function<double(std::int64_t step)>& factor,
                        events::SpanSink* spans);

  /// Seconds of the last run in which nothing was done but waiting for samples.
  double waited_for_data() const noexcept { return waited_for_data_; }

 private:
  /// Steps of an iteration that are launched together.
  struct Part {
    DataLoader::Iteration iteration{};
    std::int64_t first = 0;
    std::int64_t steps = 0;
  };
  Part part_of(const DataLoader::Iteration& iteration, std::int64_t first) const;
  Part after(const Part& part) const;
  void load(const Part& part);
  Step read(const GpuRecord& record) const;
  void count(const Step& step);

  GpuTraining& gpu_;
  const Options& options_;
  const StateShape& shape_;
  const LeafTotals& totals_;
  Progress progress_;
  std::vector<std::int64_t> counts_;  ///< updates, by parameter
  std::optional<Part> loaded_;        ///< that is on its way, or there
  double waited_for_data_ = 0;
};

/// Steps that one launch makes, at the most.
std::int64_t steps_per_launch(const Options& options);

}  // namespace lockstep::train
