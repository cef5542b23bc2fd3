#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/events/train_results.h"

namespace lockstep {

/// Which weights to use: those that are trained, or the average that the optimizer keeps of them.
enum class WeightsKind : std::uint8_t { Trained, Average };

/// Counts of samples by their class and by the class that a model predicts for them.
///
/// Classes are numbered from 0. Only counts above zero use memory, so many classes cost little.
class LOCKSTEP_API ConfusionMatrix {
 public:
  /// A count above zero.
  struct Cell {
    std::int64_t truth = 0;
    std::int64_t predicted = 0;
    std::int64_t samples = 0;
    bool operator==(const Cell&) const = default;
  };

  ConfusionMatrix() = default;
  /// Throws `Options` for a negative number.
  explicit ConfusionMatrix(std::int64_t classes);

  /// Counts samples of the class `truth` for which the model predicts `predicted`.
  /// Throws `Options` for a class that is not in 0 to `classes() - 1`, and for a negative count.
  void add(std::int64_t truth, std::int64_t predicted, std::int64_t samples = 1);

  std::int64_t classes() const noexcept { return static_cast<std::int64_t>(truths_.size()); }
  std::int64_t samples() const noexcept { return samples_; }
  /// Samples whose class is predicted.
  std::int64_t correct() const noexcept { return correct_; }

  std::int64_t count(std::int64_t truth, std::int64_t predicted) const;
  std::int64_t correct(std::int64_t of_class) const { return count(of_class, of_class); }
  /// Samples of a class.
  std::int64_t samples(std::int64_t truth) const { return truths_[checked(truth)]; }
  /// Samples for which a class is predicted.
  std::int64_t predictions(std::int64_t predicted) const {
    return predictions_[checked(predicted)];
  }

  /// Share of the predictions of a class that are correct; NaN if the class is never predicted.
  double precision(std::int64_t of_class) const;
  /// Share of the samples of a class that are predicted correctly; NaN if there are none.
  double recall(std::int64_t of_class) const;
  /// Harmonic mean of both; NaN if there is neither a sample nor a prediction.
  double f1(std::int64_t of_class) const;

  /// Wrong predictions: the most frequent first, then by class.
  std::vector<Cell> confusions() const;

  bool operator==(const ConfusionMatrix&) const = default;

 private:
  std::size_t checked(std::int64_t of_class) const;

  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts_;
  std::vector<std::int64_t> truths_;       ///< by class
  std::vector<std::int64_t> predictions_;  ///< by class
  std::int64_t samples_ = 0;
  std::int64_t correct_ = 0;
};

/// Result of a classifier on a whole data set. Every sample counts exactly once.
struct Evaluation {
  std::int64_t samples = 0;
  double loss = 0;                          ///< mean over the samples
  double accuracy = 0;                      ///< in percent
  std::vector<events::NamedValue> metrics;  ///< those of the task
  ConfusionMatrix confusion;
};

}  // namespace lockstep
