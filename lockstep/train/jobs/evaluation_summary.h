#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/train/api/evaluation.h"

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

}  // namespace lockstep::train
