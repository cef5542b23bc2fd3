#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/events/status_sink.h"
#include "lockstep/events/train_results.h"
#include "lockstep/train/api/checkpoint_cost.h"
#include "lockstep/train/api/memory_use.h"

namespace lockstep::train {

/// Where the time of an instance's devices went, as shares of the time spent in epochs: together 1.
struct TimeShares {
  double data = 0;     ///< waiting for batches
  double compute = 0;  ///< forward and backward
  double reduce = 0;   ///< combining gradients and updating weights
  double idle = 0;     ///< waiting for other devices and instances, and all else
};

/// Mean seconds of one stage of a replica for a micro-batch, on instance 0.
struct StageSeconds {
  double forward = 0;
  double backward = 0;
};

/// What a training came to: what `lockstep train` prints at its end, and writes as JSON.
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
  std::int64_t samples = 0;     ///< trained with, over all epochs
  std::int64_t resumed_at = 0;  ///< optimizer steps that an earlier run had made; 0: it began
  std::string precision{};
  std::uint64_t seed = 0;

  double train_seconds = 0;  ///< of this run's epochs, without evaluations
  double samples_per_second = 0;
  double time_to_first_step_s = 0;  ///< from the start of the process
  double first_step_unix_s = 0;     ///< when the first optimizer step was finished, since 1970
  double last_step_unix_s = 0;      ///< and the last one, before any evaluation
  TimeShares time{};                ///< the mean over instances
  std::vector<events::PhaseSeconds> seconds{};  ///< of each instance's steps
  int hosts = 1;
  int loader_workers = 0;  ///< of an instance
  std::vector<StageSeconds> stages{};
  MemoryUse memory{};
  std::int64_t private_bytes = 0;  ///< memory of the instance that has the most, not shared
  CheckpointCost checkpoints{};
  double train_loss = 0;  ///< of the last epoch
  std::vector<events::NamedValue> train_metrics{};
  std::optional<double> test_loss{};
  std::vector<events::NamedValue> test_metrics{};  ///< "acc" in percent
  std::string weights{};                           ///< the digest
};

}  // namespace lockstep::train
