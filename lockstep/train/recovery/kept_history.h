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

/// The entry of a checkpoint for this result.
checkpoint::EpochEntry entry_of(const EpochResult& result, int fit);

/// The history of one call of `Trainer::fit`, in memory that survives a restart of the job. The
/// results of earlier epochs cannot be computed again, and callbacks make decisions from them.
///
/// Every instance creates one with the same arguments. One thread at a time.
class KeptHistory {
 public:
  /// `stored` has the entries of the checkpoint that the training continues, on one instance.
  KeptHistory(comm::Communicator& communicator, int epochs, const std::vector<Metric>& metrics,
              const std::vector<checkpoint::EpochEntry>& stored = {});

  /// The result of an earlier attempt of the job, or of the run that the job continues.
  std::optional<EpochResult> find(int epoch) const;
  /// Whether an earlier attempt of the job has computed the result.
  bool is_of_this_job(int epoch) const;
  /// Adds a result that this attempt has computed.
  void put(const EpochResult& result) { keep(result, Origin::ThisJob); }

 private:
  /// The first number of a record. 0: there is no result yet.
  enum class Origin : std::uint8_t { ThisJob = 1, EarlierRun = 2 };

  std::size_t width() const noexcept { return 2 * (1 + names_.size()) + 2; }
  std::size_t begin_of(int epoch) const noexcept {
    return static_cast<std::size_t>(epoch - 1) * width();
  }
  int num_epochs() const noexcept { return static_cast<int>(records_.size() / width()); }
  void take(const checkpoint::EpochEntry& entry);
  void agree();
  void keep();
  void keep(const EpochResult& result, Origin origin);
  /// Empty if a metric is missing.
  std::optional<StepResult> result_of(const std::map<std::string, double>& values) const;
  StepResult read(const double* from) const;
  void write(double* records, const EpochResult& result, Origin origin) const;

  comm::Communicator& communicator_;
  std::vector<std::string> names_;
  comm::SharedMemory memory_;    ///< of the host: a record for each epoch
  std::vector<double> records_;  ///< the records of the most complete host at the beginning
};

}  // namespace lockstep::train
