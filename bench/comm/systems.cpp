#include "bench/comm/systems.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/driver/programs.h"
#include "lockstep/base/error.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/installed_programs.h"
#include "lockstep/launch/start/find_program.h"

namespace lockstep::bench {
namespace {

/// The value of --against that measures lockstep alone.
constexpr const char* kNoPeer = "none";

struct Peer {
  System system;
  const char* packages;
};

std::vector<Peer> known_peers() {
  return {{{"gloo",
            // Not bound to cores, as under torchrun: the two threads of Gloo would share a core.
            {lockstep_program(), "run", "--bind", "none", "--num-instances"},
            {libexec_file("lockstep-bench-gloo")}},
           "libgloo-dev"},
          {{"mpi", mpirun_launcher(), {libexec_file("lockstep-bench-mpi")}},
           "libopenmpi-dev openmpi-bin"}};
}

/// Returns a program that the peer needs and that is missing.
std::optional<std::string> missing_program(const System& peer,
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
  for (const auto& name : against) cli::check_choice("bench comm: --against", name, names);
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

Systems find_systems(const std::optional<std::vector<std::string>>& against,
                     const topology::Environment& environment) {
  Systems systems;
  systems.present.push_back({"lockstep",
                             {lockstep_program(), "run", "--num-instances"},
                             {cli::own_program(), "comm-worker"}});
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

}  // namespace lockstep::bench
