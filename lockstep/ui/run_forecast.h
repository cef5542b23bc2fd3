#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/ui/progress_bar.h"

namespace lockstep::ui {

/// Predicts the end of a training run from the times of its iterations and evaluations.
///
/// Each iteration and each evaluation that is still to come is expected to take the mean time of
/// those before it. The first iteration of a process includes warm-up, so the mean leaves it out.
/// Evaluations count only after the first one has been measured.
///
/// A resumed run measures its own iterations alone, and predicts the end of the whole run.
/// The caller passes the time of each event. One thread at a time.
class RunForecast {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  /// No prediction is made from less than this time of measured iterations.
  static constexpr Seconds kLeastMeasured{5};
  /// Shorter runs have no prediction.
  static constexpr Seconds kShortestRun{60};

  /// `evaluations` is the number of evaluations from this epoch to the end of the run.
  struct Epoch {
    std::int64_t epoch = 1;
    std::int64_t iterations = 0;
    std::int64_t epochs = 0;  ///< of the run; 0: unknown
    std::int64_t evaluations = 0;
  };
  void begin_epoch(const Epoch& epoch, Time now);
  void end_iteration(std::int64_t iteration, Time now);
  void begin_evaluation(Time now);
  void end_evaluation(Time now);

  /// The number of epochs of the run; 0: unknown.
  std::int64_t epochs() const noexcept { return epoch_.epochs; }

  /// The time from the last event to the end of the run. Returns nothing for a run of one epoch or
  /// of unknown length, for a run that is expected to last less than `kShortestRun`, and while too
  /// little was measured.
  std::optional<Seconds> time_left() const;

 private:
  /// A sum of times and their number.
  struct Mean {
    Seconds sum{0};
    std::int64_t count = 0;

    void add(Seconds seconds) {
      sum += seconds;
      ++count;
    }
    Seconds value() const { return count == 0 ? Seconds(0) : sum / static_cast<double>(count); }
  };

  Epoch epoch_{};               ///< the current one; 0 epochs: none has begun
  std::int64_t iteration_ = 0;  ///< the last one of this epoch
  bool has_warmed_up_ = false;  ///< whether an iteration was made before
  std::optional<Time> began_;   ///< the first epoch of this process
  Time last_{};                 ///< the last event
  std::optional<Time> evaluation_began_;
  Mean iterations_;
  Mean evaluations_;
};

/// The time of day at which something ends: "14:32". If it does not end today, with the day:
/// "Tue 14:32", or "2026-11-15 14:32" if that is six days or more ahead.
std::string end_text(RunForecast::Seconds left, const LocalClock& clock);

/// "12 min", "3 h 05 min", "4 days 3 h"; "less than 1 min".
std::string duration_text(RunForecast::Seconds left);

}  // namespace lockstep::ui
