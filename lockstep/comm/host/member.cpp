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
void store_text(std::array<char, size>& target, const std::string& text) {
  const auto length = std::min(text.size(), size - 1);
  std::copy_n(text.data(), length, target.data());
  target[length] = '\0';
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

Member::Member(std::shared_ptr<JobMemory> memory, int instance, WaitOptions options)
    : memory_(std::move(memory)), instance_(instance), options_(std::move(options)) {
  auto& mine = slot(instance_);
  mine.process = ::getpid();
  mine.cores = usable_cores();
  mine.thread.store(::gettid());
  mine.presence.store(Presence::Present, std::memory_order_release);
  // Where Yama forbids to look at others' processes: whoever the same launcher started may, to
  // tell where this one is stuck.
  ::prctl(PR_SET_PTRACER, ::getppid(), 0, 0, 0);
}

Member::~Member() {
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

void Member::note_wait(std::string_view operation) noexcept {
  auto& mine = slot(instance_);
  mine.thread.store(::gettid(), std::memory_order_relaxed);
  mine.doing.store(operation);
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
    if (!process) return errno == ESRCH;
  }
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 0) > 0;
}

Clock::time_point Member::last_heartbeat(int instance) const noexcept {
  return Clock::time_point(
      Clock::duration(slot(instance).heartbeat_ns.load(std::memory_order_relaxed)));
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
  if (doing.starts_with("waits ")) return "; it " + doing;
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

void Member::fail(const Error& error, const std::function<std::string()>& details) {
  auto& verdict = memory_->header().verdict;
  auto expected = Verdict::kNone;
  if (!verdict.state.compare_exchange_strong(expected, instance_ + 1)) throw_verdict(error);
  const Error full(error.kind(), error.what() + (details ? details() : ""), error.hint());
  verdict.kind = static_cast<std::int32_t>(full.kind());
  store_text(verdict.message, full.what());
  store_text(verdict.hint, full.hint());
  verdict.state.store(Verdict::kWritten, std::memory_order_release);
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
    if (is_gone(state - 1) || Clock::now() - begin > kTimeToWrite) throw otherwise;
    std::this_thread::sleep_for(1ms);
  }
  throw Error(static_cast<ErrorKind>(verdict.kind), verdict.message.data(), verdict.hint.data());
}

}  // namespace lockstep::comm::host
