#pragma once

#include <atomic>
#include <vector>

#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::testing {

/// Two jobs that do not exist: "train" on two hosts, whose numbers change with each look and whose
/// instance 2 is slow, and "done", which has ended. The numbers depend only on the number of looks.
class FakeJobFeed final : public monitor::JobFeed {
 public:
  std::vector<monitor::DashboardJob> jobs() override;

  /// "train" fails. Any thread may call it.
  void end_training() { has_ended_ = true; }

 private:
  int looks_ = 0;
  std::atomic<bool> has_ended_ = false;
};

}  // namespace lockstep::testing
