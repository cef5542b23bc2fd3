#include "bench/comm/job.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "lockstep/cli/byte_size.h"

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;

UniqueFd listen_in(const std::string& folder) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener) throw io_error("bench comm: socket");
  const auto address = driver_address(folder);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    throw io_error("bench comm: listen in " + folder);
  }
  return listener;
}

std::vector<std::string> start_command(const System& system, int instances,
                                       const std::string& folder) {
  auto command = system.launcher;
  command.push_back(std::to_string(instances));
  command.insert(command.end(), system.worker.begin(), system.worker.end());
  command.push_back(folder);
  return command;
}

}  // namespace

std::string describe(const Cell& cell) {
  return fmt::format("{} {}, {} instances", name_of(cell.collective), cli::size_text(cell.bytes),
                     cell.instances);
}

Job::Job(const System& system, int instances, const std::string& folder,
         const topology::Environment& environment, std::chrono::milliseconds patience)
    : name_(system.name),
      instances_(instances),
      patience_(patience),
      listener_(listen_in(folder)),
      launcher_(start_command(system, instances, folder), environment),
      workers_(static_cast<std::size_t>(instances)) {
  for (int i = 0; i < instances; ++i) accept_worker();
}

void Job::accept_worker() {
  const std::string doing = "before all instances were ready";
  await_input(listener_.get(), doing);
  UniqueFd worker(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!worker) throw io_error("bench comm: accept");
  std::int32_t rank = -1;
  receive(worker.get(), bytes_of(rank), doing);
  auto& place = workers_.at(static_cast<std::size_t>(rank));
  if (place) {
    throw Error(ErrorKind::Io,
                fmt::format("bench comm: {}: expected instances 0 to {}, found {} twice", name_,
                            instances_ - 1, rank));
  }
  place = std::move(worker);
}

void Job::verify(const Cell& cell) {
  ask_all(Request::Task::Verify, cell, 1);
  for (int rank = 0; rank < instances_; ++rank) {
    Verdict verdict;
    take_answer(rank, cell, bytes_of(verdict));
    if (verdict.first_wrong < 0) continue;
    throw Error(name_ == "lockstep" ? ErrorKind::Bug : ErrorKind::Io,
                fmt::format("bench comm: {}: {} computes wrong: element {} of instance {} is {}, "
                            "expected {}",
                            describe(cell), name_, verdict.first_wrong, rank, verdict.found,
                            verdict.expected));
  }
}

std::vector<Seconds> Job::measure(const Cell& cell, int repetitions) {
  ask_all(Request::Task::Measure, cell, repetitions);
  std::vector<Nanoseconds> longest(static_cast<std::size_t>(repetitions), 0);
  std::vector<Nanoseconds> times(longest.size());
  for (int rank = 0; rank < instances_; ++rank) {
    take_answer(rank, cell, std::as_writable_bytes(std::span(times)));
    std::transform(times.begin(), times.end(), longest.begin(), longest.begin(),
                   [](Nanoseconds a, Nanoseconds b) { return std::max(a, b); });
  }
  std::vector<Seconds> samples;
  for (const auto time : longest) samples.emplace_back(std::chrono::nanoseconds(time));
  return samples;
}

void Job::finish() {
  for (auto& worker : workers_) worker.reset();
  const std::string doing = "after all was measured";
  const auto status = launcher_.wait_for(patience_);
  if (!status) throw too_slow(doing);
  if (!status->success()) throw ended_early(doing);
}

void Job::ask_all(Request::Task task, const Cell& cell, int repetitions) {
  Request request{task, cell.collective, repetitions, cell.bytes};
  for (const auto& worker : workers_) {
    if (!send_packet(worker.get(), bytes_of(request))) throw ended_early("in " + describe(cell));
  }
}

void Job::take_answer(int rank, const Cell& cell, std::span<std::byte> into) {
  receive(workers_[static_cast<std::size_t>(rank)].get(), into, "in " + describe(cell));
}

void Job::receive(int socket, std::span<std::byte> into, const std::string& doing) {
  await_input(socket, doing);
  if (receive_packet(socket, into) != into.size()) throw ended_early(doing);
}

void Job::await_input(int fd, const std::string& doing) {
  std::array<pollfd, 2> fds{pollfd{fd, POLLIN, 0}, pollfd{launcher_.end_handle(), POLLIN, 0}};
  if (poll_uninterrupted(fds, patience_) == 0) throw too_slow(doing);
  // A worker's last answer can still be read after the launcher has ended.
  if (fds[0].revents == 0) throw ended_early(doing);
}

Error Job::ended_early(const std::string& doing) {
  // The launcher ends the other workers first. If that takes too long, the exit code is unknown.
  const auto status = launcher_.wait_for(10s);
  return {ErrorKind::Io,
          fmt::format("bench comm: {} with {} instances failed {}{}", name_, instances_, doing,
                      status ? fmt::format(", with exit code {}", status->shell_code()) : ""),
          "read above what it wrote, or leave it out with --against"};
}

Error Job::too_slow(const std::string& doing) const {
  return {ErrorKind::Timeout, fmt::format("bench comm: {} with {} instances was silent for {} {}",
                                          name_, instances_, patience_, doing)};
}

}  // namespace lockstep::bench
