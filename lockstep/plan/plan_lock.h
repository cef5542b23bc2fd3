#pragma once

#include <string>
#include <utility>

#include "lockstep/base/file.h"

namespace lockstep::plan {

/// The right to make a plan, as a locked file beside it. The system releases it when its holder
/// dies; its destructor removes the file.
class PlanLock {
 public:
  explicit PlanLock(std::string path) : path_(std::move(path)) {}
  PlanLock(const PlanLock&) = delete;
  PlanLock& operator=(const PlanLock&) = delete;
  ~PlanLock();

  enum class Holder {
    Us,      ///< and it stays so
    Others,  ///< ask again
    Nobody,  ///< such a file cannot be made or locked here: `errno` says why
  };
  Holder try_lock();

  /// "process 1234", or "somebody else" where the file does not say.
  std::string name_of_holder() const;

 private:
  bool is_file_of_path() const;

  std::string path_;
  UniqueFd file_;
  bool is_held_ = false;
};

/// Removes what is left of a lock whose holder died. One that is held stays.
void remove_lock_file(const std::string& path) noexcept;

}  // namespace lockstep::plan
