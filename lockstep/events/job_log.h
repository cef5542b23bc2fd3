#pragma once

#include <string>
#include <vector>

#include "lockstep/events/event_log.h"
#include "lockstep/events/job_events.h"

namespace lockstep::events {

/// Writes what happens to a job into its log, and passes all of it on to another sink, which also
/// gets the summary of the whole log, to which the instances have added theirs, when the job has
/// ended.
class JobLog final : public JobSink {
 public:
  /// Replaces the file of a job before. Errors: `Io`.
  JobLog(std::string path, JobSink& next);

  void on(const InstanceStarted& event) override;
  void on(const InstanceOutput& event) override;
  void on(const InstanceEnded& event) override;
  void on(const InstanceFailed& event) override;
  void on(const InstanceStalled& event) override;
  void on(const VictimsEnded& event) override;
  void on(const JobRestarting& event) override;
  void on(const JobShrunk& event) override;
  void on(const FaultInjected& event) override;
  void on(const HostLate& event) override;
  void on(const HostLost& event) override;
  void on(const HostsAwaited& event) override;
  void on(const JobInterrupted& event) override;
  void on(const LeftoversEnded& event) override;
  void on(const Warning& event) override;
  void on(const JobEnded& event) override;
  void on(const JobSummary& summary) override;

  std::vector<int> blocked_on() const override { return next_.blocked_on(); }
  void resume() override { next_.resume(); }
  int output_error() const override { return next_.output_error(); }

 private:
  std::string path_;
  EventLog log_;
  JobSink& next_;
};

}  // namespace lockstep::events
