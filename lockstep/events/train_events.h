#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep::events {

/// A number that training shows beside the loss: "acc" in percent.
struct NamedValue {
  std::string name;
  double value = 0;
};

/// One of the steps that lead to the first step of training is about to begin; or, where all are
/// done, what came of them.
struct Preparing {
  std::string what;  ///< "reading the dataset"
  int done = 0;      ///< steps that are behind it
  int total = 0;
};

struct EpochBegan {
  std::int64_t epoch = 1;
  std::int64_t iterations = 0;
  std::int64_t epochs = 0;       ///< of the whole run, counted from 1; 0: unknown
  std::int64_t evaluations = 0;  ///< from this epoch to the end of the run, as far as known
};

struct IterationDone {
  std::int64_t epoch = 1;
  std::int64_t iteration = 0;  ///< of the epoch, counted from 1
  double loss = 0;             ///< of its last optimizer step, over all replicas
  std::vector<NamedValue> metrics;
};

struct EpochDone {
  std::int64_t epoch = 1;
  std::int64_t iterations = 0;  ///< that it had; of those before a crash nothing was told since
  double loss = 0;              ///< over all its samples
  std::vector<NamedValue> metrics;
};

struct EvaluationBegan {
  std::int64_t epoch = 1;    ///< 0: an evaluation without a training
  std::int64_t batches = 0;  ///< of this instance
};

struct EvaluationAdvanced {
  std::int64_t done = 0;
};

struct EvaluationDone {
  std::int64_t epoch = 1;  ///< 0: an evaluation without a training
  double loss = 0;
  std::vector<NamedValue> metrics;
};

/// Something that the user should know once.
struct Notice {
  std::string text;
};

/// What happens while a model is trained, told on instance 0 to whoever shows it. One thread calls.
class LOCKSTEP_API TrainSink {
 public:
  virtual ~TrainSink() = default;

  virtual void on(const Preparing& event) = 0;
  virtual void on(const EpochBegan& event) = 0;
  virtual void on(const IterationDone& event) = 0;
  virtual void on(const EpochDone& event) = 0;
  virtual void on(const EvaluationBegan& event) = 0;
  virtual void on(const EvaluationAdvanced& event) = 0;
  virtual void on(const EvaluationDone& event) = 0;
  virtual void on(const Notice& event) = 0;
};

}  // namespace lockstep::events
