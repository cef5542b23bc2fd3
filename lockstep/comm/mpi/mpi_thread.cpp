#include "lockstep/comm/mpi/mpi_thread.h"

#include <fmt/format.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "lockstep/base/log.h"
#include "lockstep/comm/mpi/check_mpi.h"
#include "lockstep/comm/mpi/gather.h"

namespace lockstep::comm::mpi {
namespace {

using namespace std::chrono_literals;

/// A thread that is stuck in MPI does not keep a process that has failed.
constexpr auto kLeaveWithin = 1s;
/// How long a victim waits for mpirun to hear of the cause first.
constexpr std::chrono::milliseconds kLetTheCauseEndFirst = 1s;
/// How long others get to say what they know, before mpirun ends them.
constexpr auto kLetOthersHear = 300ms;
constexpr unsigned long kTimerSlackNs = 1000;

/// Signals are for the threads of the program; and short rests are to be short.
void prepare_thread() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
}

void initialize() {
  int is_initialized = 0;
  check_mpi(::MPI_Initialized(&is_initialized), "MPI_Initialized");
  if (is_initialized != 0) {
    throw Error(ErrorKind::Options,
                "mpi: expected to start MPI, found that this process has started it before",
                "leave MPI_Init to lockstep, or pass --transport tcp");
  }
  int provided = MPI_THREAD_SINGLE;
  check_mpi(::MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(::MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
            "MPI_Comm_set_errhandler");
  if (provided >= MPI_THREAD_FUNNELED) return;
  throw Error(ErrorKind::Unavailable,
              "mpi: expected a library that programs with threads may use, found one that they "
              "may not",
              "pass --transport tcp");
}

/// Messages and data do not meet.
Communicators make_communicators() {
  Communicators made{MPI_COMM_NULL, MPI_COMM_NULL};
  check_mpi(::MPI_Comm_dup(MPI_COMM_WORLD, &made.data), "MPI_Comm_dup");
  check_mpi(::MPI_Comm_dup(MPI_COMM_WORLD, &made.control), "MPI_Comm_dup");
  return made;
}

bool is_orderly(int exit_status) {
  return exit_status == 0 || exit_status == exit_code(ErrorKind::Stopped);
}

/// The program has ended well, and cannot be told any more that the job has not: only the code can.
[[noreturn]] void end_without_others(std::chrono::duration<double> waited) {
  const Error error(ErrorKind::Timeout,
                    fmt::format("mpi: expected all ranks of the MPI job to end, found that some "
                                "have not ended, nor said anything for {:.3g} s",
                                waited.count()),
                    "see which of its processes still run, and where they are stuck, or raise "
                    "--stall-timeout");
  log_line(describe(error));
  std::fflush(nullptr);
  ::_exit(exit_code(ErrorKind::Timeout));
}

/// For `on_exit`, which alone tells the status that a process ends with.
void finish_at_exit(int exit_status, void* thread) {
  (*static_cast<std::shared_ptr<MpiThread>*>(thread))->finish(exit_status);
}

}  // namespace

std::shared_ptr<MpiThread> MpiThread::start(Place place, const WaitOptions& options) {
  const std::shared_ptr<MpiThread> thread(new MpiThread(std::move(place), options));
  // Nobody can end it where it is stuck in MPI_Init, so nobody waits for its end without a limit.
  std::thread([thread] { thread->run(); }).detach();
  thread->wait_until_started(options);
  // The process keeps it to its end.
  ::on_exit(finish_at_exit, new std::shared_ptr<MpiThread>(thread));
  return thread;
}

void MpiThread::run() {
  prepare_thread();
  std::optional<Progress> progress;
  try {
    progress.emplace(mailbox_, join_job());
  } catch (const Error& error) {
    error_ = error;
    set_phase(Phase::Failed);
    return;
  }
  set_phase(Phase::Serving);
  if (progress->serve() == Ending::Finalize) ::MPI_Finalize();
  set_phase(Phase::Ended);
}

Communicators MpiThread::join_job() {
  initialize();
  learn_map();
  return make_communicators();
}

void MpiThread::learn_map() {
  const auto ranks = gather_places(place_);
  map_ = host_map_of(ranks);
  for (const auto& rank : ranks) instances_.push_back(rank.instance);
  for (const auto& host : map_.hosts) leaders_.push_back(*rank_of(host.instances.front()));
}

std::optional<int> MpiThread::rank_of(int instance) const {
  const auto found = std::find(instances_.begin(), instances_.end(), instance);
  if (found == instances_.end()) return std::nullopt;
  return static_cast<int>(found - instances_.begin());
}

bool MpiThread::is_every_instance_a_rank() const {
  return instances_.size() == static_cast<std::size_t>(place_.num_instances);
}

void MpiThread::set_phase(Phase phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  changed_.notify_all();
}

void MpiThread::wait_until_started(const WaitOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto has_started = [&] { return phase_ != Phase::Starting; };
  bool has_warned = false;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, 100ms, has_started)) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (options.stall_timeout.count() > 0 && time > options.stall_timeout) {
      throw Error(ErrorKind::Timeout,
                  fmt::format("mpi: expected all ranks of the MPI job within {:.3g} s, found that "
                              "some have not called MPI_Init",
                              options.stall_timeout.count()),
                  "see whether all processes that mpirun has started are instances of this job, "
                  "or raise --stall-timeout");
    }
    if (!has_warned && time > options.warn_after && options.warn) {
      has_warned = true;
      options.warn(fmt::format(
          "mpi: some ranks of the MPI job have not called MPI_Init for {:.3g} s", time.count()));
    }
  }
  if (error_) throw Error(*error_);
}

/// Returns whether it has ended.
bool MpiThread::wait_for_end_within(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return phase_ == Phase::Ended; });
}

/// Returns whether all have ended. One that is heard of may have much to do before it ends, as to
/// write what all have come to. Only leaders are told, and so can judge.
bool MpiThread::wait_for_end_with_others() {
  const bool judges = place_.is_leader() && stall_timeout_.count() > 0;
  const auto begin = std::chrono::steady_clock::now();
  while (!wait_for_end_within(100ms)) {
    const auto quiet = std::chrono::steady_clock::now() - std::max(begin, mailbox_.last_heard());
    if (judges && quiet > stall_timeout_) return false;
  }
  return true;
}

void MpiThread::finish(int exit_status) noexcept {
  // Whoever reads it need not wait for other ranks.
  std::fflush(stdout);
  const bool finalizes = is_orderly(exit_status) && !mailbox_.has_failed();
  mailbox_.end(finalizes ? Ending::Finalize : Ending::Leave);
  if (!finalizes) {
    wait_for_end_within(kLeaveWithin);
  } else if (!wait_for_end_with_others()) {
    end_without_others(stall_timeout_);
  }
  // mpirun ends with the code of whoever ends first, and ends the others.
  if (exit_status == 0 || !is_every_instance_a_rank()) return;
  const bool is_victim = exit_status == exit_code(ErrorKind::PeerLost);
  std::this_thread::sleep_for(is_victim ? kLetTheCauseEndFirst : kLetOthersHear);
}

}  // namespace lockstep::comm::mpi
