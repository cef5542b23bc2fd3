#pragma once

#include <memory>

#include "lockstep/base/export.h"

namespace lockstep::comm {

/// An operation that runs in the background.
///
/// Its buffers are not to be touched before `wait` returns. Destruction waits too, and drops the
/// error that `wait` would have thrown.
class [[nodiscard]] LOCKSTEP_API Work {
 public:
  class LOCKSTEP_INTERNAL State;

  explicit Work(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  bool done() const;
  /// Returns when the operation is done, or throws what it threw. May be called once more.
  void wait();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::comm
