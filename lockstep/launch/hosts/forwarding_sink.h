#pragma once

#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/events/job_events.h"
#include "lockstep/launch/hosts/channel.h"

namespace lockstep::launch {

/// Tells the launcher, over a channel, what happens to the instances of a host.
///
/// The launcher reads the channel always, but says how much output it has passed on: no more than
/// `kMostOutput` is on its way at a time, so a reader that is slow or stopped slows the instances
/// on every host, and memory stays bounded.
class ForwardingSink final : public events::JobSink {
 public:
  static constexpr std::size_t kMostOutput = std::size_t{1} << 20;

  ForwardingSink(Channel& channel, const comm::host::KeptMemory& memory)
      : channel_(channel), memory_(memory) {}

  void on(const events::InstanceStarted& event) override;
  void on(const events::InstanceOutput& event) override;
  void on(const events::InstanceEnded& event) override;
  void on(const events::InstanceFailed& event) override;
  void on(const events::InstanceStalled& event) override;
  void on(const events::LeftoversEnded& event) override;
  void on(const events::Warning& event) override;
  // What only the launcher knows, no agent tells.
  void on(const events::VictimsEnded&) override {}
  void on(const events::JobRestarting&) override {}
  void on(const events::JobShrunk&) override {}
  void on(const events::FaultInjected&) override {}
  void on(const events::JobInterrupted&) override {}
  void on(const events::HostLate&) override {}
  void on(const events::HostLost&) override {}
  void on(const events::HostsAwaited&) override {}
  void on(const events::JobEnded&) override {}
  void on(const events::JobSummary&) override {}

  /// The launcher has passed on so much.
  void note_taken(std::size_t bytes);

  /// A descriptor of -1 where the launcher's word is waited for, which comes over the channel.
  std::vector<int> blocked_on() const override;
  void resume() override { channel_.flush(); }
  int output_error() const override { return 0; }

 private:
  Channel& channel_;
  const comm::host::KeptMemory& memory_;
  std::size_t on_its_way_ = 0;
};

}  // namespace lockstep::launch
