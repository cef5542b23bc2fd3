#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lockstep/monitor/web/curve_history.h"
#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

/// What the dashboard shows at this moment: the feed's snapshot, and the curves that were made of
/// all snapshots so far. One thread uses it.
///
/// The text is the same for all who look, so it is made once and shared; its memory is bounded: a
/// feed that says more than 4 MiB is a problem that is shown instead.
class DashboardState {
 public:
  explicit DashboardState(JobFeed& feed);

  /// Asks the feed. What it throws, or says that is no JSON, becomes `problem` in the text.
  void refresh();

  /// `{"jobs": […], "problem": "…"}`; each job also has `events`, `curves`, and of the first 64
  /// instances `share_curves`: `{"step": […], "instances": {"0": {"data": […], …}}}` in percent.
  std::shared_ptr<const std::string> text() const noexcept { return text_; }
  /// Grows with each text that differs from the one before.
  std::uint64_t version() const noexcept { return version_; }

 private:
  /// All instances of a job in one, so fewer points.
  static constexpr std::size_t kMostSharePoints = 100;
  struct Curves {
    CurveHistory<CurvePoint> job{};
    CurveHistory<SharePoint> shares{kMostSharePoints};
  };

  std::string make_text();

  JobFeed& feed_;
  std::map<std::string, Curves> curves_;
  std::string last_jobs_ = "[]";
  std::shared_ptr<const std::string> text_;
  std::uint64_t version_ = 0;
};

}  // namespace lockstep::monitor
