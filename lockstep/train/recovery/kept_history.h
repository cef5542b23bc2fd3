#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/shared_memory.h"
#include "lockstep/events/train_results.h"
#include "lockstep/train/api/task.h"

namespace lockstep::train {

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

}  // namespace lockstep::train
