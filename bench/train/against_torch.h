#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/driver/python_peer.h"
#include "bench/driver/report.h"
#include "lockstep/topology/environment.h"

namespace lockstep::bench {

/// The work that is measured beside PyTorch.
enum class TrainWork : std::uint8_t {
  Train,   ///< whole jobs: one epoch of a ResNet-20
  Update,  ///< reducing gradients and updating weights alone, for the parameters of a ResNet-50
};

inline constexpr TrainWork kTrainWorks[] = {TrainWork::Train, TrainWork::Update};
std::string_view name_of(TrainWork work) noexcept;
/// Throws `Options` for other names. `where` begins the message.
TrainWork parse_train_work(std::string_view where, const std::string& name);

struct AgainstTorchOptions {
  std::vector<TrainWork> works{TrainWork::Train, TrainWork::Update};
  int instances = 2;  ///< of a job; each has one replica with one thread
  std::int64_t batch_size = 64;
  std::int64_t steps = 50;  ///< of a job
  int rounds = 3;           ///< jobs of each
  std::vector<int> update_instances{2, 4};
};

/// The programs that `measure_against_torch` runs.
struct TrainPrograms {
  std::string lockstep;
  std::string bench;  ///< lockstep-bench
  PythonPeer peer;
};

/// Throws `Unavailable` if one of them is missing.
TrainPrograms find_train_programs(const topology::Environment& environment);

/// Trains with `lockstep train` and with PyTorch's DistributedDataParallel in turn, with the same
/// images, network, batches and optimizer. `lockstep run` starts both, so both use the same cores.
/// PyTorch takes a turn for each memory layout and number of DataLoader workers.
///
/// Verifies every job. The first job of each system is a warm-up and is not counted.
///
/// Throws `Io` if a job fails or learns nothing.
Report measure_against_torch(const AgainstTorchOptions& options, const TrainPrograms& programs,
                             const topology::Environment& environment);

}  // namespace lockstep::bench
