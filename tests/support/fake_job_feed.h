#pragma once

#include <string>

#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::testing {

/// Jobs that are not there: "train" on two hosts, whose numbers move with each look, instance 2
/// being slow, and "done", which has ended. The numbers depend on how often it was asked, and on
/// nothing else.
class FakeJobFeed final : public monitor::JobFeed {
 public:
  std::string snapshot() override;
  std::string events(const std::string& job, int most) override;

 private:
  int looks_ = 0;
};

}  // namespace lockstep::testing
