#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/cli/bench_report.h"

namespace lockstep::cli {

/// What one training job came to, whoever ran it.
struct TrainRun {
  Seconds to_first_step{0};  ///< from the start of the command until the first step was finished
  Seconds per_step{0};       ///< of the steps after the first
  double data_share = 0;     ///< of the epoch's time, spent waiting for data
  double train_loss = 0;     ///< the mean of the epoch
  double idle_share = 0;     ///< of the devices' time; only of lockstep, as the next
  std::string weights{};     ///< the digest of those in the end
};

/// What a job was started with.
struct TrainStart {
  double unix_s = 0;  ///< when the command was started
  std::int64_t steps = 0;
  std::int64_t classes = 0;           ///< 0: the loss may be any
  const char* bench = "bench train";  ///< begins messages
};

/// Reads the summary of `lockstep train`, or the line of bench/train/torch_train.py. `system`
/// is named in messages.
///
/// Throws `Io` where it is something else, where another number of steps was made, or where nothing
/// was learned: where the loss is no better than guessing among the classes.
TrainRun read_lockstep_run(const std::string& system, const std::string& json,
                           const TrainStart& start);
TrainRun read_torch_run(const std::string& system, const std::string& json,
                        const TrainStart& start);

/// Reads {"seconds": […]}: what reducing and updating took, round by round. Throws `Io` for
/// anything else.
std::vector<Seconds> read_update_times(const std::string& system, const std::string& json);

}  // namespace lockstep::cli
