#pragma once

#include <string>
#include <vector>

#include "lockstep/events/job_events.h"
#include "lockstep/events/job_summary.h"

namespace lockstep::testing {

/// Remembers what it is told of a job, as far as tests ask for it.
class RecordingSink : public events::JobSink {
 public:
  void on(const events::InstanceStarted&) override {}
  void on(const events::InstanceOutput&) override {}
  void on(const events::InstanceEnded&) override {}
  void on(const events::InstanceFailed&) override {}
  void on(const events::InstanceStalled& event) override { stalled.push_back(event); }
  void on(const events::VictimsEnded&) override {}
  void on(const events::JobRestarting&) override {}
  void on(const events::JobShrunk&) override {}
  void on(const events::FaultInjected& event) override { faults.push_back(event); }
  void on(const events::HostLate&) override {}
  void on(const events::HostLost&) override {}
  void on(const events::HostsAwaited&) override {}
  void on(const events::JobInterrupted&) override {}
  void on(const events::LeftoversEnded&) override {}
  void on(const events::Warning& event) override { warnings.push_back(event.text); }
  void on(const events::JobEnded&) override {}
  void on(const events::JobSummary&) override {}

  std::vector<int> blocked_on() const override { return {}; }
  void resume() override {}
  int output_error() const override { return 0; }

  std::vector<events::InstanceStalled> stalled;
  std::vector<events::FaultInjected> faults;
  std::vector<std::string> warnings;
};

}  // namespace lockstep::testing
