#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/train/training_model.h"

namespace lockstep {

/// What an epoch came to: means over all replicas of the job.
struct EpochResult {
  int epoch = 1;
  StepResult training;
  std::optional<StepResult> validation{};
};

/// What a call of `Trainer::fit` came to, epoch by epoch; also of those that an earlier attempt of
/// the job has made.
struct History {
  std::vector<EpochResult> epochs{};
  bool stopped_early = false;
};

/// "loss", or a metric by its name: of the validation where there is one, else of the training.
/// Errors: `Options`, with the names that there are, for another one.
double value_of(const EpochResult& result, std::string_view metric);

namespace train {

/// The history of one `Trainer::fit`, in memory that the launcher keeps when it starts the job
/// again: what was found of earlier epochs cannot be computed again, and decisions depend on it.
///
/// Every instance makes it, alike. One thread at a time.
class KeptHistory {
 public:
  KeptHistory(comm::Communicator& communicator, int epochs, const std::vector<Metric>& metrics);

  /// What an earlier attempt found.
  std::optional<EpochResult> find(int epoch) const;
  void put(const EpochResult& result);

 private:
  std::size_t width() const noexcept { return 2 * (1 + names_.size()) + 2; }
  std::size_t begin_of(int epoch) const noexcept;
  void agree();
  StepResult read(const double* from) const;

  comm::Communicator& communicator_;
  std::vector<std::string> names_;
  comm::SharedMemory memory_;    ///< of the host: a record for each epoch
  std::vector<double> records_;  ///< the same as it was in the beginning, of all hosts
};

}  // namespace train
}  // namespace lockstep
