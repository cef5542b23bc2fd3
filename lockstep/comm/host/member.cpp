#include "lockstep/comm/host/member.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "lockstep/comm/host/stack_trace.h"

namespace lockstep::comm::host {
namespace {

/// How a text begins that tells of a collective; anything else is a user's.
const std::string kWaits = "waits in ";

std::bitset<kMaxCores> usable_cores() {
  std::bitset<kMaxCores> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE && core < kMaxCores; ++core) {
    if (CPU_ISSET(core, &set)) cores.set(static_cast<std::size_t>(core));
  }
  return cores;
}

template <std::size_t size>
void store_text(std::array<char, size>& target, std::string_view text) noexcept {
  const auto length = std::min(text.size(), size - 1);
  std::copy_n(text.data(), length, target.data());
  target[length] = '\0';
}

void write_verdict(Verdict& verdict, const Error& error) noexcept {
  verdict.kind = static_cast<std::int32_t>(error.kind());
  store_text(verdict.message, error.what());
  store_text(verdict.hint, error.hint());
  verdict.state.store(Verdict::kWritten, std::memory_order_release);
}

/// The letter in /proc/PID/stat; it stands behind the name, which may hold anything.
char state_of(int process) {
  try {
    const auto stat = read_file(fmt::format("/proc/{}/stat", process));
    const auto name_end = stat.rfind(") ");
    return name_end == std::string::npos || name_end + 2 >= stat.size() ? '?' : stat[name_end + 2];
  } catch (const Error&) {
    return '?';
  }
}

}  // namespace

Member::Member(std::shared_ptr<JobMemory> memory, int instance, WaitOptions options,
               std::shared_ptr<KeptMemory> kept)
    : memory_(std::move(memory)),
      instance_(instance),
      options_(std::move(options)),
      kept_(std::move(kept)) {
  auto& mine = slot(instance_);
  mine.cores = usable_cores();
  mine.thread.store(::gettid());
  memory_->introduce(instance_, ::getpid());
  // Where Yama forbids to look at others' processes: whoever the same launcher started may, to
  // tell where this one is stuck.
  constexpr int kInit = 1;
  if (num_instances() > 1 && ::getppid() != kInit) {
    ::prctl(PR_SET_PTRACER, ::getppid(), 0, 0, 0);
  }
}

Member::~Member() {
  // A child that was forked has a copy of this, but is not the instance.
  if (slot(instance_).process != ::getpid()) return;
  slot(instance_).presence.store(Presence::Left, std::memory_order_release);
}

InstanceSlot& Member::slot(int instance) const noexcept {
  return memory_->header().instances[static_cast<std::size_t>(instance)];
}

void Member::heartbeat(std::string_view doing) noexcept {
  auto& mine = slot(instance_);
  mine.doing.store(doing);
  mine.heartbeat_ns.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

void Member::note_caller(int thread) noexcept {
  slot(instance_).thread.store(thread, std::memory_order_relaxed);
}

void Member::note_wait(const std::string& operation) noexcept {
  slot(instance_).doing.store(kWaits + operation);
}

void Member::note_return() noexcept {
  slot(instance_).doing.store({});
}

bool Member::is_gone(int instance) {
  const auto& other = slot(instance);
  const auto presence = other.presence.load(std::memory_order_acquire);
  if (presence == Presence::Left) return true;
  if (presence == Presence::Absent || other.process == ::getpid()) return false;

  const std::lock_guard lock(mutex_);
  auto& process = processes_[instance];
  if (!process) {
    process.reset(static_cast<int>(::syscall(SYS_pidfd_open, other.process, 0)));
    // Where there are none of these, or none left: a process that is not there is gone all the
    // same.
    if (!process) return ::kill(other.process, 0) != 0 && errno == ESRCH;
  }
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 0) > 0;
}

Clock::time_point Member::last_heartbeat(int instance) const noexcept {
  return Clock::time_point(
      Clock::duration(slot(instance).heartbeat_ns.load(std::memory_order_relaxed)));
}

void Member::pass_on_heartbeat(Clock::time_point heartbeat) noexcept {
  auto& mine = slot(instance_).heartbeat_ns;
  const auto time = heartbeat.time_since_epoch().count();
  if (time > mine.load(std::memory_order_relaxed)) mine.store(time, std::memory_order_relaxed);
}

void Member::note_wait_for_hosts() noexcept {
  slot(instance_).waits_for_hosts_ns.store(Clock::now().time_since_epoch().count(),
                                           std::memory_order_relaxed);
}

Clock::time_point Member::last_wait_for_hosts(int instance) const noexcept {
  return Clock::time_point(
      Clock::duration(slot(instance).waits_for_hosts_ns.load(std::memory_order_relaxed)));
}

int Member::port_of(int instance) const noexcept {
  return slot(instance).port.load(std::memory_order_acquire);
}

void Member::note_port(int instance, int port) noexcept {
  slot(instance).port.store(port, std::memory_order_release);
}

bool Member::is_waiting(int instance) const {
  return slot(instance).doing.load().starts_with(kWaits);
}

std::string Member::name_of(int instance) const {
  const auto& other = slot(instance);
  const auto* host = memory_->header().host.data();
  if (other.presence.load(std::memory_order_acquire) == Presence::Absent) {
    return fmt::format("instance {} (host {})", instance, host);
  }
  return fmt::format("instance {} (host {}, pid {})", instance, host, other.process);
}

std::string Member::condition_of(int instance) const {
  const auto& other = slot(instance);
  if (other.presence.load(std::memory_order_acquire) != Presence::Present) return {};
  const auto state = state_of(other.process);
  if (state == 'T' || state == 't') return "; it is stopped";
  const auto doing = other.doing.load();
  if (doing.empty()) return {};
  if (doing.starts_with(kWaits)) return "; it " + doing;
  const auto ago = std::chrono::duration<double>(Clock::now() - last_heartbeat(instance));
  return fmt::format("; it said \"{}\" {:.0f} s ago", doing, ago.count());
}

std::string Member::stack_of(int instance) const {
  const auto& other = slot(instance);
  if (other.presence.load(std::memory_order_acquire) != Presence::Present) return {};
  return stack_trace({.process = other.process, .thread = other.thread.load()});
}

int Member::instances_per_core(std::span<const int> instances) const {
  std::bitset<kMaxCores> cores;
  for (const int instance : instances) cores |= slot(instance).cores;
  const auto count = std::max<std::size_t>(1, cores.count());
  return static_cast<int>((instances.size() + count - 1) / count);
}

void Member::throw_if_failed() {
  if (memory_->header().verdict.state.load(std::memory_order_acquire) == Verdict::kNone) return;
  throw_verdict(Error(ErrorKind::PeerLost,
                      "the job has failed, and so has the instance that was about to say why",
                      "look at the output of the other instances"));
}

bool Member::record(const Error& error) noexcept {
  auto& verdict = memory_->header().verdict;
  auto expected = Verdict::kNone;
  if (!verdict.state.compare_exchange_strong(expected, instance_ + 1)) return false;
  write_verdict(verdict, error);
  return true;
}

std::optional<Error> Member::verdict() const {
  const auto& verdict = memory_->header().verdict;
  if (verdict.state.load(std::memory_order_acquire) != Verdict::kWritten) return std::nullopt;
  return Error(static_cast<ErrorKind>(verdict.kind), verdict.message.data(), verdict.hint.data());
}

void Member::fail(const Error& error, const std::function<std::string()>& details) {
  auto& verdict = memory_->header().verdict;
  auto expected = Verdict::kNone;
  if (!verdict.state.compare_exchange_strong(expected, instance_ + 1)) throw_verdict(error);
  std::string more;
  try {
    if (details) more = details();
  } catch (const std::exception&) {
    // The error itself matters more than what could be added to it.
  }
  const Error full(error.kind(), error.what() + more, error.hint());
  write_verdict(verdict, full);
  throw full;
}

/// Whoever writes the verdict may die over it, or be stopped: then `otherwise` is thrown.
void Member::throw_verdict(const Error& otherwise) {
  using namespace std::chrono_literals;
  constexpr auto kTimeToWrite = 4s;
  auto& verdict = memory_->header().verdict;
  const auto begin = Clock::now();
  for (auto state = verdict.state.load(std::memory_order_acquire); state != Verdict::kWritten;
       state = verdict.state.load(std::memory_order_acquire)) {
    const bool is_lost = is_gone(state - 1) || Clock::now() - begin > kTimeToWrite;
    // It may have written it, and then ended, since we looked.
    if (is_lost && verdict.state.load(std::memory_order_acquire) != Verdict::kWritten) {
      throw otherwise;
    }
    std::this_thread::sleep_for(1ms);
  }
  throw *this->verdict();
}

}  // namespace lockstep::comm::host
