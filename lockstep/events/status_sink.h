#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep::events {

/// What an instance is busy with, in one word.
enum class Phase : std::uint8_t { Starting, Preparing, Training, Evaluating, Saving, Finishing };

/// How long the parts of some work took, in seconds of this instance.
struct PhaseSeconds {
  double data = 0;     ///< waiting for batches
  double compute = 0;  ///< forward and backward
  double reduce = 0;   ///< gradients of all replicas into one, and the update
  double idle = 0;     ///< the rest

  PhaseSeconds& operator+=(const PhaseSeconds& other) noexcept {
    data += other.data;
    compute += other.compute;
    reduce += other.reduce;
    idle += other.idle;
    return *this;
  }
  PhaseSeconds operator-(const PhaseSeconds& other) const noexcept {
    return {data - other.data, compute - other.compute, reduce - other.reduce, idle - other.idle};
  }
  bool operator==(const PhaseSeconds&) const = default;
};

/// One call of the training model is done.
struct StepsDone {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::int64_t epoch = 1;           ///< counted from 1
  std::int64_t step = 0;            ///< of the epoch, counted from 1
  std::int64_t steps_of_epoch = 0;  ///< 0 where nobody knows
  std::int64_t samples = 0;         ///< that this instance's replicas took since the last call
  double loss = kUnknown;           ///< over all replicas
  double accuracy = kUnknown;       ///< in percent, over all replicas
  PhaseSeconds seconds{};           ///< since the last call
};

/// Who is told what an instance does, so that others can look at it while it runs.
///
/// Every call returns within a microsecond, waits for nobody and throws nothing, so it may stand in
/// the middle of training. Any thread may call.
class LOCKSTEP_API StatusSink {
 public:
  virtual ~StatusSink() = default;

  virtual void enter(Phase phase) noexcept = 0;
  virtual void on(const StepsDone& event) noexcept = 0;
  /// A collective begins: the name is that of its operation, "all_reduce" or "barrier epoch".
  virtual void enter_collective(std::string_view name) noexcept = 0;
  virtual void leave_collective() noexcept = 0;
  /// Bytes that this instance has taken on its devices, where these are not the machine's memory.
  virtual void note_device_memory(std::int64_t bytes) noexcept = 0;
};

}  // namespace lockstep::events
