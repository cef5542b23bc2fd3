#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/export.h"
#include "lockstep/events/status_sink.h"
#include "lockstep/launch/start/run_directory.h"
#include "lockstep/monitor/status/instance_status.h"
#include "lockstep/monitor/status/rate_meter.h"
#include "lockstep/monitor/status/status_page.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace lockstep::monitor {

/// Shows what this instance does to `lockstep monitor` and the dashboard, while it lives.
///
/// The page lies in the folder of the job. Where no launcher of ours has made one, because the
/// process is alone or was started by torchrun, mpirun or srun, this makes a folder of the
/// process's own in the same place, and holds it as a launcher would: so what is left of a process
/// that was killed is removed by whoever looks for jobs next.
///
/// Who calls what, when (every instance does, not instance 0 alone):
///
/// | when                                                     | call                            |
/// |----------------------------------------------------------|---------------------------------|
/// | the process knows who it is, before libtorch has loaded  | the constructor                 |
/// | data sets are opened, a plan is made, weights are loaded | `enter(Phase::Preparing)`       |
/// | before the first step, and again after each of the next  | `enter(Phase::Training)`        |
/// | an evaluation begins                                     | `enter(Phase::Evaluating)`      |
/// | training waits for a checkpoint                          | `enter(Phase::Saving)`          |
/// | a call of the training model has returned                | `on(StepsDone)`                 |
/// | a collective begins and ends, from any thread            | `enter_collective`, `leave_…`   |
/// | memory of a GPU was taken, once a second at most         | `note_device_memory`            |
/// | the last step is done, results are being written         | `enter(Phase::Finishing)`       |
/// | the process ends                                         | the destructor                  |
///
/// Entering the phase that it is in costs nothing, so nobody has to keep track.
///
/// Any thread may call a member. Nothing that goes wrong here ends a training: where there can be
/// no page, `problem()` says why, once, and all calls do nothing.
class LOCKSTEP_PRIVATE_API StatusPublisher final : public events::StatusSink {
 public:
  StatusPublisher(const topology::Identity& identity, const topology::Environment& environment,
                  DeviceKind device_kind);
  ~StatusPublisher() override;
  StatusPublisher(const StatusPublisher&) = delete;
  StatusPublisher& operator=(const StatusPublisher&) = delete;

  void enter(Phase phase) noexcept override;
  void on(const events::StepsDone& event) noexcept override;
  void enter_collective(std::string_view name) noexcept override;
  void leave_collective() noexcept override;
  void note_device_memory(std::int64_t bytes) noexcept override;

  /// Why nobody can see this instance; empty where they can.
  const std::string& problem() const noexcept { return problem_; }
  /// What the job is called in tables.
  const std::string& job() const noexcept { return facts_.job; }
  /// The page's file; empty where there is none.
  std::string path() const { return page_ ? page_->path() : std::string(); }

 private:
  std::string open_folder(const topology::Identity& identity,
                          const topology::Environment& environment);
  void publish(RateMeter::TimePoint now) noexcept;

  int owner_;
  InstanceFacts facts_;
  std::optional<launch::RunDirectory> own_folder_;
  std::unique_ptr<StatusPage> page_;
  std::string problem_;
  std::mutex mutex_;  // for what follows, and the page
  InstanceState state_;
  RateMeter rate_;
};

}  // namespace lockstep::monitor
