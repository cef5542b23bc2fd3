#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/train/training_model.h"

namespace lockstep {

/// What an epoch came to: means over all replicas of the job.
struct EpochResult {
  int epoch = 1;
  StepResult training;
  std::optional<StepResult> validation{};
};

/// What a call of `Trainer::fit` came to, epoch by epoch; also of those that an earlier attempt of
/// the job has made, or the job whose checkpoint this one goes on from.
struct History {
  std::vector<EpochResult> epochs{};
  bool stopped_early = false;
};

/// "loss", or a metric by its name: of the validation where there is one, else of the training.
/// Errors: `Options`, with the names that there are, for another one.
double value_of(const EpochResult& result, std::string_view metric);

namespace train {

/// As it is written into checkpoints.
checkpoint::EpochEntry entry_of(const EpochResult& result, int fit);

/// The history of one `Trainer::fit`, in memory that the launcher keeps when it starts the job
/// again: what was found of earlier epochs cannot be computed again, and decisions depend on it.
///
/// Every instance makes it, alike. One thread at a time.
class KeptHistory {
 public:
  /// `stored` is what a checkpoint has of this call, from which another job goes on; some instance
  /// has it.
  KeptHistory(comm::Communicator& communicator, int epochs, const std::vector<Metric>& metrics,
              const std::vector<checkpoint::EpochEntry>& stored = {});

  /// What an earlier attempt found.
  std::optional<EpochResult> find(int epoch) const;
  void put(const EpochResult& result);

 private:
  std::size_t width() const noexcept { return 2 * (1 + names_.size()) + 2; }
  std::size_t begin_of(int epoch) const noexcept;
  int num_epochs() const noexcept { return static_cast<int>(records_.size() / width()); }
  void take(const checkpoint::EpochEntry& entry);
  void agree();
  void keep();
  /// Nothing where a metric is missing.
  std::optional<StepResult> result_of(const std::map<std::string, double>& values) const;
  StepResult read(const double* from) const;
  void write(double* records, const EpochResult& result) const;

  comm::Communicator& communicator_;
  std::vector<std::string> names_;
  comm::SharedMemory memory_;    ///< of the host: a record for each epoch
  std::vector<double> records_;  ///< what was known in the beginning, on any host
};

}  // namespace train
}  // namespace lockstep
