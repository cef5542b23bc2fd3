#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/base/file.h"

namespace lockstep::weights {

/// What a run was, as far as a reader of its digests wants to know.
struct DigestLogHeader {
  int replicas = 1;
  int threads_per_device = 1;
  std::map<std::string, std::string> facts{};  ///< anything else: {"model", "resnet20"}
  bool operator==(const DigestLogHeader&) const = default;
};

/// What a run had come to after one optimizer step.
struct DigestStep {
  std::int64_t step = 0;
  /// Of each replica; none where the run was killed before they were recorded.
  std::vector<float> losses;
  std::map<std::string, std::string> tensors;  ///< 16 hexadecimal digits for each name
};

/// The name of the log in a run's log folder.
inline constexpr std::string_view kDigestLogName = "digests.jsonl";

/// Writes the digests of a run, a line of JSON for each recorded step behind one for the header:
///
///     {"lockstep_digests":1,"replicas":2,"threads_per_device":1,"model":"resnet20"}
///     {"step":40,"loss":[0.5,0.25],"loss_bits":["3f000000","3e800000"],"tensors":{"fc.bias":"…"}}
///
/// Each line is handed to the system at once and whole, so a crash costs no step that was recorded
/// before. Losses are kept by their bits; the numbers beside them are for people.
///
/// Errors: `Io`, naming the file.
class LOCKSTEP_PRIVATE_API DigestLogWriter {
 public:
  /// Replaces a log that is there. With `after`, as when a run is resumed, what it holds up to that
  /// step is kept, and whatever crashes at whatever moment, the old log or the new one is there.
  /// One without a whole line, as a crash may have left it, is none. Then there may also be `Data`
  /// where the log is damaged, and `Options` where it is no plain file.
  DigestLogWriter(const std::filesystem::path& path, const DigestLogHeader& header,
                  std::optional<std::int64_t> after = std::nullopt);

  void append(const DigestStep& step);

  /// The last step of a log that is continued, 0 where it has none; nothing for a new log.
  std::optional<std::int64_t> last_step() const noexcept { return last_step_; }

 private:
  void keep_until(std::int64_t last, const DigestLogHeader& header);
  void write_line(const std::string& line);

  std::string path_;
  UniqueFd file_;
  std::optional<std::int64_t> last_step_;
};

/// Reads a log step by step, so that a long one takes no more memory than a short one. A last line
/// that was cut, as a crash leaves it, is left out.
///
/// Errors, naming file and line: `Io`; `Data` where it is damaged or no such log.
class DigestLogReader {
 public:
  explicit DigestLogReader(const std::filesystem::path& path);

  const std::string& path() const noexcept { return path_; }
  const DigestLogHeader& header() const noexcept { return header_; }

  /// The next step, whose number is above all before; nothing at the end.
  std::optional<DigestStep> next();

 private:
  struct Line {
    std::string text;
    bool is_cut = false;  ///< it has no line feed
  };

  std::optional<Line> next_line();
  std::string where() const;

  std::string path_;
  std::ifstream file_;
  std::int64_t line_number_ = 0;
  std::optional<std::int64_t> last_step_;
  DigestLogHeader header_;
};

}  // namespace lockstep::weights
