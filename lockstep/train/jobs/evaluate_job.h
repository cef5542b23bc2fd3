#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/events/callback.h"
#include "lockstep/events/watchers.h"
#include "lockstep/topology/identity.h"
#include "lockstep/train/api/evaluation.h"
#include "lockstep/train/jobs/train_request.h"

namespace lockstep::train {

/// The checkpoint whose weights were evaluated.
struct EvaluatedCheckpoint {
  std::string path;
  std::int64_t step = 0;    ///< optimizer steps of the training so far
  bool is_average = false;  ///< the average of the weights, not the trained ones
};

/// Result of `lockstep eval`: what it prints and writes as JSON.
struct EvaluationSummary {
  std::string model;
  std::string dataset;
  std::string split{};                        ///< "test" or "train"; empty for a pack
  std::optional<data::IndexRange> samples{};  ///< of the split; empty: all, or those of --limit
  std::string init_from{};                    ///< the weight file; empty if there is none
  std::optional<EvaluatedCheckpoint> checkpoint{};  ///< set on instance 0
  std::string weights{};                            ///< digest
  std::int64_t batch_size = 0;
  std::string precision{};
  int threads_per_device = 1;
  std::vector<std::string> class_names{};  ///< empty if the dataset has none
  Evaluation result{};

  // How it was computed. Nothing above depends on it.
  int instances = 1;
  int replicas = 1;
  double seconds = 0;
};

/// Returns the watchers of an instance. Called once, with the replicas and devices that compute.
using WatchFunction = std::function<events::Watchers(const topology::Identity&)>;

/// The built-in evaluation: computes loss, accuracy and the confusion matrix of a network on a
/// dataset of images, as one instance of the job that the environment describes. Includes no torch.
///
/// On CPUs it divides the cores of the job by itself: one replica for each `threads_per_device`
/// cores, one core if that is unset. Replicas, stages and threads that a launcher has set count
/// only as cores. GPUs use deterministic algorithms. The result is therefore the same for any
/// number of instances and replicas.
///
/// `callback` is called on instance 0, `watch` on each instance. Every instance returns the
/// summary; only instance 0, which reads the checkpoint, sets its `checkpoint`.
///
/// Errors: those of the dataset, the weights and the model.
EvaluationSummary run_evaluation(const TrainRequest& request, const EvaluationRequest& evaluation,
                                 Callback& callback, const WatchFunction& watch);

}  // namespace lockstep::train
