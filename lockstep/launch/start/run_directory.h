#pragma once

#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/topology/environment.h"

namespace lockstep::launch {

/// A folder of the job's own, for this user's eyes alone, that is gone when the job is.
///
/// It lies in the user's runtime directory, or under the folder for temporary files where there is
/// none. The name is chosen before the launcher splits in two, the folder is created after that: so
/// there is always another process that knows of it and removes it. Whoever created it holds a lock
/// on it; where both processes were killed at once, the next job finds it unlocked and removes it.
class RunDirectory {
 public:
  /// Chooses the name. Touches no disk.
  explicit RunDirectory(const topology::Environment& environment);

  /// Creates the folder, and removes those that dead jobs have left. Throws `Io`.
  void create();

  /// The job's name, which is the folder's: 12 hex digits.
  const std::string& job_id() const noexcept { return job_id_; }
  const std::string& path() const noexcept { return path_; }

  /// Removes the folder with all that is in it. May be called by either process, any number of
  /// times.
  void remove() const noexcept;

 private:
  bool try_create();

  std::string parent_;
  std::string job_id_;
  std::string path_;
  UniqueFd lock_;
};

/// Where this user's jobs may have their folders, whatever was set when they were started. Some of
/// these, or all, may not be there.
std::vector<std::string> run_directory_parents(const topology::Environment& environment);

/// Whether a job's folder is one that nobody holds; it is removed then. Left alone is what belongs
/// to another user, cannot be opened, or lies where others may have put it.
bool remove_if_abandoned(const std::string& path);

}  // namespace lockstep::launch
