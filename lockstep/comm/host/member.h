#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/comm/host/job_memory.h"
#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::host {

using Clock = std::chrono::steady_clock;

/// One instance among those that share a job's memory: it shows itself to the others while this
/// lives, and sees them. Any thread may call a member.
class Member {
 public:
  /// `kept` is what outlives the instances; nothing where the launcher keeps no memory.
  Member(std::shared_ptr<JobMemory> memory, int instance, WaitOptions options,
         std::shared_ptr<KeptMemory> kept = nullptr);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  int instance() const noexcept { return instance_; }
  int num_instances() const noexcept { return memory_->header().num_instances; }
  int num_local_instances() const noexcept { return memory_->header().num_local_instances; }
  JobMemory& memory() const noexcept { return *memory_; }
  KeptMemory* kept_memory() const noexcept { return kept_.get(); }
  const WaitOptions& options() const noexcept { return options_; }

  void heartbeat(std::string_view doing) noexcept;
  /// Notes which thread asks for collectives, and what it waits in, for the messages of others.
  void note_caller(int thread) noexcept;
  void note_wait(const std::string& operation) noexcept;
  void note_return() noexcept;

  /// Whether an instance has ended or left, or will never come.
  bool is_gone(int instance);
  Clock::time_point last_heartbeat(int instance) const noexcept;
  /// Makes another's heartbeat this one's: who waits for somebody that is busy is not late either.
  void pass_on_heartbeat(Clock::time_point heartbeat) noexcept;
  /// Says that this instance waits for other hosts, which is not its fault.
  void note_wait_for_hosts() noexcept;
  Clock::time_point last_wait_for_hosts(int instance) const noexcept;
  /// Where an instance takes connections of other hosts; 0 as long as that is not known.
  int port_of(int instance) const noexcept;
  void note_port(int instance, int port) noexcept;
  /// Whether an instance waits for others in a collective.
  bool is_waiting(int instance) const;
  /// "instance 2 (host b, pid 4711)"
  std::string name_of(int instance) const;
  /// "; it said "evaluating" 12 s ago", "; it is stopped", or nothing.
  std::string condition_of(int instance) const;
  /// Where the thread of another instance stands that asked for its last collective; empty if
  /// unknown.
  std::string stack_of(int instance) const;

  /// How many of these instances share a core, if they are spread evenly; at least 1.
  int instances_per_core(std::span<const int> instances) const;

  /// Makes this error the job's verdict; returns whether it is, because there was none.
  bool record(const Error& error) noexcept;
  /// The job's verdict, once it is written.
  std::optional<Error> verdict() const;
  /// Throws the job's verdict, if there is one.
  void throw_if_failed();
  /// Makes this error the job's verdict and throws it; throws the one that is there, if any.
  /// `details` takes its time, so only whoever gives the verdict adds them.
  [[noreturn]] void fail(const Error& error, const std::function<std::string()>& details = {});

 private:
  InstanceSlot& slot(int instance) const noexcept;
  [[noreturn]] void throw_verdict(const Error& otherwise);

  std::shared_ptr<JobMemory> memory_;
  int instance_;
  WaitOptions options_;
  std::shared_ptr<KeptMemory> kept_;
  std::mutex mutex_;
  std::map<int, UniqueFd> processes_;  // of others, as far as they were looked at
};

}  // namespace lockstep::comm::host
