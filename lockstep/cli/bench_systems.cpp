#include "lockstep/cli/bench_systems.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/cli/choice.h"
#include "lockstep/launch/start/find_program.h"

namespace lockstep::cli {
namespace {

/// In --against: lockstep alone.
constexpr const char* kNoPeer = "none";

struct Peer {
  BenchSystem system;
  const char* packages;
};

std::vector<Peer> known_peers() {
  return {{{"gloo",
            // Unbound, as torchrun would start it: bound to one core its two threads are in each
            // other's way.
            {own_program(), "run", "--bind", "none", "--num-instances"},
            {libexec_program("lockstep-bench-gloo")}},
           "libgloo-dev"},
          {{"mpi", mpirun_launcher(), {libexec_program("lockstep-bench-mpi")}},
           "libopenmpi-dev openmpi-bin"}};
}

/// A program that it would take to run a peer, and that is not here.
std::optional<std::string> missing_program(const BenchSystem& peer,
                                           const topology::Environment& environment) {
  for (const auto& program : {peer.worker.front(), peer.launcher.front()}) {
    if (!launch::has_program(program, environment)) return program;
  }
  return std::nullopt;
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_names(const std::vector<std::string>& against, const std::vector<Peer>& peers) {
  std::vector<std::string> names;
  for (const auto& peer : peers) names.push_back(peer.system.name);
  names.emplace_back(kNoPeer);
  for (const auto& name : against) check_choice("bench comm: --against", name, names);
  if (against.size() == 1 || !holds(against, kNoPeer)) return;
  throw Error(ErrorKind::Options,
              fmt::format("bench comm: --against: expected peers or '{0}', found '{0}' among {1}",
                          kNoPeer, fmt::join(against, ",")),
              fmt::format("--against {}", kNoPeer));
}

Error not_here(const Peer& peer, const std::string& program) {
  return {ErrorKind::Unavailable,
          fmt::format("bench comm: --against {}: expected the program {}, which is not here",
                      peer.system.name, program),
          fmt::format("apt-get install {}, and build with -DLOCKSTEP_BUILD_BENCHMARKS=ON",
                      peer.packages)};
}

}  // namespace

std::string libexec_program(const char* name) {
  const auto bin = std::filesystem::path(own_program()).parent_path();
  return bin.parent_path() / "libexec" / "lockstep" / name;
}

BenchSystems find_systems(const std::optional<std::vector<std::string>>& against,
                          const topology::Environment& environment) {
  BenchSystems systems;
  systems.present.push_back({"lockstep",
                             {own_program(), "run", "--num-instances"},
                             {own_program(), "bench", "comm-worker"}});
  const auto peers = known_peers();
  if (against) check_names(*against, peers);
  for (const auto& peer : peers) {
    if (against && !holds(*against, peer.system.name)) continue;
    const auto missing = missing_program(peer.system, environment);
    if (missing && against) throw not_here(peer, *missing);
    if (missing) {
      systems.missing.push_back(peer.system.name);
    } else {
      systems.present.push_back(peer.system);
    }
  }
  return systems;
}

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

std::vector<std::string> mpirun_launcher() {
  std::vector<std::string> launcher{"mpirun", "--oversubscribe", "-np"};
  if (::getuid() == 0) launcher.insert(launcher.begin() + 1, "--allow-run-as-root");
  return launcher;
}

}  // namespace lockstep::cli
