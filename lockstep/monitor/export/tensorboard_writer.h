#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep {
class UniqueFd;
}

namespace lockstep::monitor {

/// Writes scalars and texts into an event file that TensorBoard shows.
///
/// A file is a row of records: length, its checksum, an `Event` message, its checksum. Each record
/// is one write at the end of the file, so a file that a crash has cut is readable up to the cut,
/// and TensorBoard, which follows the file, sees a value at once.
///
/// Any one thread at a time may call a member. A file that cannot be written ends no training: what
/// was written of the record is taken back, `failure()` says why, and nothing more is written.
///
/// Errors: `Io` from the constructor; `Options` for a value that TensorBoard could not show.
class LOCKSTEP_API TensorBoardWriter {
 public:
  /// Seconds since 1970.
  using WallClock = std::function<double()>;

  /// Makes a new file in the folder, which is made too where it is not there.
  explicit TensorBoardWriter(const std::string& folder);
  TensorBoardWriter(const std::string& folder, WallClock clock);
  TensorBoardWriter(TensorBoardWriter&&) noexcept;
  TensorBoardWriter& operator=(TensorBoardWriter&&) noexcept;
  ~TensorBoardWriter();

  /// A point of the curve `tag`. TensorBoard groups tags by what stands before a slash.
  void add_scalar(std::string_view tag, std::int64_t step, double value);

  /// A text, which TensorBoard shows as Markdown. What is no UTF-8 in it is replaced.
  void add_text(std::string_view tag, std::int64_t step, std::string_view text);

  const std::string& path() const noexcept { return path_; }
  /// Why the file ends early; nothing while all is well.
  const std::optional<std::string>& failure() const noexcept { return failure_; }

 private:
  void append(const std::string& record) noexcept;

  WallClock clock_;
  std::string path_;
  std::unique_ptr<UniqueFd> file_;
  std::optional<std::string> failure_;
};

}  // namespace lockstep::monitor
