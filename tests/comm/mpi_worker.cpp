// mpi_worker SCENARIO HOST…
//
// One rank of an MPI job; HOST… are the names of the hosts that the ranks believe to be on, by
// rank. Says what it finds on stderr, and ends as a lockstep program does.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/mpi/join.h"

namespace {

using namespace lockstep;
using namespace std::chrono_literals;
using comm::hosts::Fabric;
using comm::hosts::Note;
using Clock = std::chrono::steady_clock;

constexpr auto kShortPatience = 2s;

struct Rank {
  int instance;
  comm::mpi::Joined joined;

  Fabric& fabric() { return *joined.fabric; }
  bool leads() const { return joined.fabric != nullptr; }
};

void expect(bool condition, const std::string& what) {
  if (!condition) throw Error(ErrorKind::Bug, "mpi_worker: expected " + what);
}

/// No two pairs of hosts, rounds and positions have the same bytes by accident.
std::byte byte_of(int from, int to, int round, std::size_t position) {
  const auto mixed = (position + 1) * 2654435761U ^
                     static_cast<std::size_t>(from * 7919 + to * 104729 + round * 1299709);
  return static_cast<std::byte>(mixed >> 7U);
}

/// Gives up where a host says that it has failed, as the transport does.
void heed_notes(Fabric& fabric) {
  for (const auto& note : fabric.take_notes()) {
    if (note.kind != Note::Kind::Failed) continue;
    throw Error(ErrorKind::PeerLost,
                fmt::format("host {} has failed: {}", note.host, note.error->what()));
  }
}

Fabric::LookAround heeding(Fabric& fabric) {
  return [&fabric](std::span<const int>) { heed_notes(fabric); };
}

/// Everybody sends to everybody, and all of it is what it should be.
void exchange_with_all(Fabric& fabric, std::size_t size, int round) {
  std::map<int, std::vector<std::byte>> out;
  std::map<int, std::vector<std::byte>> in;
  std::vector<Fabric::Send> sends;
  std::vector<Fabric::Receive> receives;
  for (int host = 0; host < fabric.num_hosts(); ++host) {
    if (host == fabric.host()) continue;
    // Sizes differ by direction, too.
    out[host].resize(size + static_cast<std::size_t>(size > 0 ? host : 0));
    in[host].resize(size + static_cast<std::size_t>(size > 0 ? fabric.host() : 0));
    for (std::size_t i = 0; i < out[host].size(); ++i) {
      out[host][i] = byte_of(fabric.host(), host, round, i);
    }
    sends.push_back({host, out[host]});
    receives.push_back({host, in[host]});
  }
  fabric.exchange(sends, receives, heeding(fabric));
  for (const auto& [host, bytes] : in) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == byte_of(host, fabric.host(), round, i)) continue;
      throw Error(ErrorKind::Bug,
                  fmt::format("byte {} of {} from {} is wrong", i, bytes.size(), host));
    }
  }
}

void exchange(Rank& rank) {
  if (!rank.leads()) return;
  int round = 0;
  for (const std::size_t size : {0UL, 1UL, 4097UL, 100000UL, 3UL << 20U, (20UL << 20U) + 5}) {
    exchange_with_all(rank.fabric(), size, round++);
  }
  for (; round < 500; ++round) exchange_with_all(rank.fabric(), 64, round);
}

void side_by_side(Rank& rank) {
  if (!rank.leads()) return;
  auto& all = rank.fabric();
  std::vector<int> everybody;
  for (int host = 0; host < all.num_hosts(); ++host) everybody.push_back(host);
  std::vector<std::unique_ptr<Fabric>> fabrics;
  // Two with the same hosts, and one that the first host is not in.
  fabrics.push_back(all.split(everybody, 0xffffffff00000001, heeding(all)));
  fabrics.push_back(all.split(everybody, 0x0000000000000001, heeding(all)));
  if (all.host() != 0 && all.num_hosts() > 2) {
    const std::vector<int> others(everybody.begin() + 1, everybody.end());
    fabrics.push_back(all.split(others, 7, heeding(all)));
    expect(fabrics.back()->host() == all.host() - 1, "hosts to be numbered anew");
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < fabrics.size(); ++i) {
    threads.emplace_back([&fabric = *fabrics[i], i] {
      for (int round = 0; round < 50; ++round) {
        exchange_with_all(fabric, 1000 * (i + 1) + static_cast<std::size_t>(round) * 1000,
                          round * 10 + static_cast<int>(i));
      }
    });
  }
  exchange_with_all(all, 10UL << 20U, 9999);
  for (auto& thread : threads) thread.join();
}

/// The last of each host, twice with one id: fabrics that are made one after the other.
void connect(Rank& rank) {
  std::vector<int> last;
  for (const auto& host : rank.joined.map.hosts) last.push_back(host.instances.back());
  if (std::find(last.begin(), last.end(), rank.instance) == last.end()) return;
  const auto look = [](std::span<const int>) {};
  const auto first = rank.joined.connect(last, 5, look);
  const auto second = rank.joined.connect(last, 5, look);
  expect(last.at(static_cast<std::size_t>(first->host())) == rank.instance, "its own place");
  exchange_with_all(*second, 10000, 2);
  exchange_with_all(*first, 10000, 1);
}

void notes(Rank& rank) {
  if (!rank.leads()) return;
  auto& fabric = rank.fabric();
  Note note{.kind = Note::Kind::Alive, .quiet_for = std::chrono::seconds(fabric.host() + 1)};
  for (int i = 0; i < 100; ++i) fabric.tell(note);
  note.kind = Note::Kind::Left;
  fabric.tell(note);
  std::map<int, int> left;
  std::map<int, std::chrono::nanoseconds> quiet_for;
  const auto deadline = Clock::now() + 20s;
  while (static_cast<int>(left.size()) + 1 < fabric.num_hosts()) {
    expect(Clock::now() < deadline, "a note of every host");
    for (const auto& got : fabric.take_notes()) {
      if (got.kind == Note::Kind::Left) ++left[got.host];
      if (got.kind == Note::Kind::Alive) quiet_for[got.host] = got.quiet_for;
    }
    std::this_thread::sleep_for(1ms);
  }
  for (const auto& [host, count] : left) {
    expect(count == 1, "one note that a host has left");
    expect(quiet_for[host] == std::chrono::seconds(host + 1), "each host's own quiet time");
  }
}

void exchange_for_ever(Rank& rank, const std::function<void(int)>& before_round) {
  for (int round = 0; round < 1'000'000; ++round) {
    before_round(round);
    exchange_with_all(rank.fabric(), 100'000, round);
  }
}

void fail_on_one(Rank& rank) {
  if (!rank.leads()) std::this_thread::sleep_for(60s);
  exchange_for_ever(rank, [&](int round) {
    if (round != 20 || rank.instance != 1) return;
    const Error error(ErrorKind::Data, "the data of instance 1 is bad", "other data");
    rank.fabric().tell({.kind = Note::Kind::Failed, .error = error});
    throw error;
  });
}

/// One that leads nothing fails, and can tell nobody.
void fail_on_last(Rank& rank) {
  if (!rank.leads()) throw Error(ErrorKind::Data, "the data of an instance is bad");
  std::this_thread::sleep_for(60s);
}

void kill_one(Rank& rank) {
  exchange_for_ever(rank, [&](int round) {
    if (round == 20 && rank.instance == 1) ::raise(SIGKILL);
  });
}

/// The first host waits for one that does not come, with something under way in both directions.
void give_up(Rank& rank) {
  if (rank.instance != 0) {
    std::this_thread::sleep_for(30s);
    return;
  }
  auto& fabric = rank.fabric();
  std::vector<std::byte> out(30UL << 20U);
  std::vector<std::byte> in(30UL << 20U);
  const std::vector<Fabric::Send> sends{{1, out}};
  const std::vector<Fabric::Receive> receives{{1, in}};
  int looks = 0;
  fabric.exchange(sends, receives, [&](std::span<const int> waiting_for) {
    expect(waiting_for.size() == 1 && waiting_for.front() == 1, "to wait for host 1");
    if (++looks == 3) throw Error(ErrorKind::Timeout, "host 1 does not come");
  });
}

void end_well(Rank&) {}

/// The second host is stuck, where all others have ended.
void never_end(Rank& rank) {
  if (rank.instance == 1) std::this_thread::sleep_for(60s);
}

/// The second host works on, and says so, where all others have ended.
void end_late(Rank& rank) {
  if (rank.instance != 1) return;
  for (const auto end = Clock::now() + 3 * kShortPatience; Clock::now() < end;) {
    rank.fabric().tell({.kind = Note::Kind::Alive});
    std::this_thread::sleep_for(100ms);
  }
}

int run(const std::string& scenario, int instance, const std::vector<std::string>& hosts) {
  const std::map<std::string, void (*)(Rank&)> scenarios{
      {"exchange", exchange}, {"connect", connect},         {"side_by_side", side_by_side},
      {"notes", notes},       {"fail_on_one", fail_on_one}, {"fail_on_last", fail_on_last},
      {"kill_one", kill_one}, {"give_up", give_up},         {"end_well", end_well},
      {"end_late", end_late}, {"never_end", never_end}};
  const auto& own = hosts.at(static_cast<std::size_t>(instance));
  std::vector<int> local;
  for (int other = 0; other < static_cast<int>(hosts.size()); ++other) {
    if (hosts[static_cast<std::size_t>(other)] == own) local.push_back(other);
  }
  comm::WaitOptions options;
  const bool is_patient = scenario != "end_late" && scenario != "never_end";
  options.stall_timeout = is_patient ? 20s : kShortPatience;
  Rank rank{instance, comm::mpi::join({.instance = instance,
                                       .num_instances = static_cast<int>(hosts.size()),
                                       .local_instances = local,
                                       .host_name = own},
                                      options)};
  expect(rank.leads() == (local.front() == instance), "the first of a host to lead it");
  std::string map;
  for (const auto& host : rank.joined.map.hosts) {
    map += fmt::format(" {}={}", host.name, fmt::join(host.instances, ","));
  }
  log_line(fmt::format("instance {} sees{}", instance, map));
  scenarios.at(scenario)(rank);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // The worker stands for a program whose identity `topology` has read.
  const char* variable = std::getenv("OMPI_COMM_WORLD_RANK");
  const int instance = variable == nullptr ? 0 : std::atoi(variable);
  int status = 0;
  try {
    status = run(argv[1], instance, {argv + 2, argv + argc});
  } catch (const Error& error) {
    log_line(describe(error));
    status = exit_code(error.kind());
  }
  log_line(fmt::format("instance {} ends with {}", instance, status));
  return status;
}
