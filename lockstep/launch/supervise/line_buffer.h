#pragma once

#include <string>
#include <string_view>

namespace lockstep::launch {

/// Turns bytes, as they come out of a pipe, into whole lines.
///
/// A carriage return within a line means that what follows replaces what was shown: of such a line
/// only the text shown last is passed on, and while the line is unfinished that text is its
/// progress. "\r\n" is a line end and stays as it is. There is no limit on the length of a line.
class LineBuffer {
 public:
  /// Valid until the next call.
  struct Text {
    std::string_view lines;     ///< whole lines with their line feeds
    std::string_view progress;  ///< what an unfinished line with carriage returns shows now
  };

  Text add(std::string_view bytes);

  /// The last line, where the stream ended without a line feed; it is given one.
  Text finish();

 private:
  void append_finished(std::string_view line);
  void append_pending(std::string_view bytes);

  std::string_view progress() const;

  /// More than this is no progress, but a long line that happens to hold a carriage return.
  static constexpr std::size_t kMostProgress = 4096;

  std::string pending_;           ///< the line that is not finished yet
  bool pending_returns_ = false;  ///< whether there was a carriage return in it
  std::string ready_;  ///< finished lines, where they cannot be taken from the input as they are
};

}  // namespace lockstep::launch
