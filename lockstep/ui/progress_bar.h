#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep::ui {

enum class BarStyle : std::uint8_t {
  Live,    ///< one line that is drawn again and again, each time after a carriage return
  Lines,   ///< whole lines, now and then: for files and pipes
  Silent,  ///< no bar; lines that are written between are written all the same
};

/// What a bar tells of time.
enum class BarTimes : std::uint8_t {
  ElapsedAndRate,  ///< "00:48<00:00,  2.03s/it"
  Elapsed,         ///< "00:48", where steps are no measure of each other
};

/// Writes text at once. It should not throw: a bar is no reason to end a training.
using Writer = std::function<void(std::string_view)>;

/// Returns the local time a number of seconds from now.
using LocalClock = std::function<std::tm(std::chrono::seconds from_now)>;

/// The `LocalClock` of this machine, in the time zone of the process.
LOCKSTEP_API std::tm local_time_of_this_machine(std::chrono::seconds from_now);

/// Where bars and the lines between them go.
struct BarOutput {
  BarStyle style = BarStyle::Silent;
  Writer write = [](std::string_view) {};
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  /// Of the terminal, which would wrap a longer frame into two lines; none where there is no
  /// terminal.
  std::function<std::optional<int>()> columns = [] { return std::nullopt; };
  LocalClock local_time = local_time_of_this_machine;
};

/// A bar that shows how far something is, in the shape of tqdm's.
///
/// The first frame is drawn when it is made, others at most every `kFrameInterval` (live) or
/// `kLineInterval` (lines), the last one always. One thread uses it, and one bar of an output lives
/// at a time. Destroying it finishes it where it stands.
class LOCKSTEP_API ProgressBar {
 public:
  static constexpr std::chrono::milliseconds kFrameInterval{100};
  static constexpr std::chrono::seconds kLineInterval{5};

  struct Options {
    std::int64_t total = 0;    ///< 0 where nobody knows
    std::int64_t initial = 0;  ///< what is done already, as after a resume
    BarTimes times = BarTimes::ElapsedAndRate;
    std::string postfix{};  ///< of the first frame
  };

  ProgressBar(BarOutput output, std::string label, Options options);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  std::int64_t done() const noexcept { return done_; }
  std::int64_t total() const noexcept { return options_.total; }
  bool is_silent() const noexcept { return output_.style == BarStyle::Silent; }

  /// What stands behind the rate: "loss=1.45, acc=48.4". Shown with the next frame.
  void set_postfix(std::string postfix) { postfix_ = std::move(postfix); }

  /// Draws where the last frame is old enough; the full bar is left to the end.
  void update(std::int64_t done);

  /// Draws now, where the style is live: for steps that may take long.
  void update_now(std::int64_t done);

  /// Counts what was done before the bar began, as after a resume, out of the rate.
  void begin_at(std::int64_t done);

  /// Writes a line above the bar.
  void write_line(std::string_view line);

  /// Takes the bar off the screen, so that others can write, and puts it back.
  void hide();
  void show();

  /// Draws the last frame and ends its line. Nothing is drawn any more.
  void finish();

  /// Finishes as one of which all is done.
  void complete();

  /// Ends without a trace, where a line takes the bar's place.
  void vanish();

 private:
  std::string text() const;
  std::string erasure() const;
  void draw();

  BarOutput output_;
  std::string label_;
  Options options_;
  std::string postfix_;
  std::int64_t done_;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point last_drawn_;
  std::size_t columns_drawn_ = 0;  ///< how much of the screen's line is ours
  bool is_over_ = false;
};

}  // namespace lockstep::ui
