#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/checkpoint/checkpoint_folder.h"

namespace lockstep::checkpoint {

/// What became of a checkpoint. Where its content could not even be made, it has no step and
/// reason.
struct Written {
  std::int64_t step = 0;
  std::string reason;
  std::filesystem::path path;  ///< empty where it failed
  std::string error;           ///< why, then
  double seconds = 0;          ///< from the call of `make` to the end
  double cpu_seconds = 0;      ///< that the thread worked of these
};

/// Writes checkpoints on a thread of its own, one at a time. One thread calls members.
///
/// A failure ends nothing: `take_results` tells of it, and the checkpoints before stay. No signal
/// reaches the thread.
class LOCKSTEP_PRIVATE_API BackgroundWriter {
 public:
  explicit BackgroundWriter(CheckpointFolder folder);
  /// Waits until what was begun is written.
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  const std::filesystem::path& path() const noexcept;

  /// Whether one is being written: then the next has to wait.
  bool is_busy() const;

  /// Begins to write what `make` returns, which is called on the writer's thread: sorting and
  /// hashing belong there, and so does giving back the memory: `make` and its content are gone when
  /// it is no longer busy. Waits for the one before, if that is not written yet.
  void begin(std::function<Content()> make);

  /// Waits until nothing is being written.
  void wait();

  /// What became of those that were finished since the last call.
  std::vector<Written> take_results();

 private:
  struct LOCKSTEP_INTERNAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::checkpoint
