#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/driver/report.h"

namespace lockstep::bench {

/// The results of one training job of lockstep or PyTorch.
struct TrainRun {
  Seconds to_first_step{0};  ///< from the start of the command to the end of the first step
  Seconds per_step{0};       ///< of the steps after the first
  double data_share = 0;     ///< share of the epoch's time that was spent waiting for data
  double train_loss = 0;     ///< mean over the epoch
  double idle_share = 0;     ///< share of the devices' time; lockstep only
  std::string weights{};     ///< digest of the final weights; lockstep only
};

/// The facts about a job with which its results are checked.
struct TrainStart {
  double unix_s = 0;  ///< start of the command
  std::int64_t steps = 0;
  std::int64_t classes = 0;           ///< 0: the loss is not checked
  const char* bench = "bench train";  ///< begins messages
};

/// The current time, for `TrainStart::unix_s`.
double unix_now();

/// Reads the summary of `lockstep train`, or the line of bench/train/torch_train.py. Messages name
/// `system`.
///
/// Throws `Io` if the text is something else, if the number of steps differs, or if the loss is no
/// better than guessing among the classes.
TrainRun read_lockstep_run(const std::string& system, const std::string& json,
                           const TrainStart& start);
TrainRun read_torch_run(const std::string& system, const std::string& json,
                        const TrainStart& start);

/// Reads {"seconds": […]}: the time of reducing and updating in each round. Throws `Io` for
/// anything else.
std::vector<Seconds> read_update_times(const std::string& system, const std::string& json);

}  // namespace lockstep::bench
