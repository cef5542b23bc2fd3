#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/events/callback.h"
#include "lockstep/events/watchers.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/jobs/train_request.h"

namespace lockstep::train {

/// The phases of the steps as shares, which add up to 1.
struct TimeShares {
  double data = 0;     ///< waiting for batches
  double compute = 0;  ///< forward and backward
  double reduce = 0;   ///< combining gradients and updating weights
  double idle = 0;     ///< waiting for other devices and instances, and the rest
};

/// Mean seconds of one stage of a replica for a micro-batch, on instance 0.
struct StageSeconds {
  double forward = 0;
  double backward = 0;
};

/// Result of `lockstep train`: what it prints at the end and writes as JSON.
struct TrainSummary {
  std::string model;
  std::string dataset;
  int replicas = 1;
  int instances = 1;
  int threads_per_device = 1;
  std::int64_t batch_size = 0;
  std::int64_t gradient_accumulation = 1;
  std::int64_t device_iterations = 1;
  std::int64_t epochs = 0;
  std::int64_t optimizer_steps = 0;
  std::int64_t samples = 0;     ///< over all epochs
  std::int64_t resumed_at = 0;  ///< optimizer steps of the run that this run continues; 0: none
  std::string precision{};
  std::uint64_t seed = 0;

  double train_seconds = 0;  ///< of the epochs of this run, without evaluations
  double samples_per_second = 0;
  double time_to_first_step_s = 0;              ///< from the start of the process
  double first_step_unix_s = 0;                 ///< end of the first optimizer step, since 1970
  double last_step_unix_s = 0;                  ///< end of the last one, before the last evaluation
  TimeShares time{};                            ///< mean over the instances
  std::vector<events::PhaseSeconds> seconds{};  ///< of the steps, by instance
  int hosts = 1;
  int loader_workers = 0;  ///< of an instance
  std::vector<StageSeconds> stages{};
  MemoryUse memory{};
  std::int64_t private_bytes = 0;  ///< the largest unshared memory of an instance
  CheckpointCost checkpoints{};
  double train_loss = 0;  ///< of the last epoch
  std::vector<events::NamedValue> train_metrics{};
  std::optional<double> test_loss{};
  std::vector<events::NamedValue> test_metrics{};  ///< "acc" in percent
  std::string weights{};                           ///< digest
};

/// The requested device, otherwise a GPU if there is one.
DeviceKind device_of(const TrainRequest& request);

/// Trains a network of the zoo or of a file on an image dataset, as one instance of the job that
/// the environment describes. Implements `lockstep train` with a `Trainer`. This header needs no
/// torch.
///
/// Instance 0 calls the callbacks; they must outlive the call. `watchers` observe each instance.
/// Every instance returns the summary.
///
/// Errors: those of the dataset, the model and the training.
TrainSummary run_training(const TrainRequest& request, const std::vector<Callback*>& callbacks,
                          const events::Watchers& watchers = {});

}  // namespace lockstep::train
