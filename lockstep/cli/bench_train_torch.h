#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cli/bench_report.h"
#include "lockstep/cli/python_peer.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// What is measured beside PyTorch.
enum class TrainWork : std::uint8_t {
  Train,   ///< whole jobs: a ResNet-20 for an epoch
  Update,  ///< combining gradients and updating weights alone, as many as a ResNet-50 has
};

inline constexpr TrainWork kTrainWorks[] = {TrainWork::Train, TrainWork::Update};
std::string_view name_of(TrainWork work) noexcept;
/// Throws `Options` for other names; `where` ends in what the name was given for.
TrainWork parse_train_work(std::string_view where, const std::string& name);

struct BenchTrainTorchOptions {
  std::vector<TrainWork> works{TrainWork::Train, TrainWork::Update};
  int instances = 2;  ///< of a job; each has one replica of one thread
  std::int64_t batch_size = 64;
  std::int64_t steps = 50;  ///< of a job
  int rounds = 3;           ///< jobs of each
  std::vector<int> update_instances{2, 4};
};

/// The programs that it takes.
struct BenchTrainPrograms {
  std::string lockstep;
  std::string trainer;  ///< lockstep-train
  PythonPeer peer;
};

/// Throws `Unavailable` where the peer is not here.
BenchTrainPrograms find_train_programs(const topology::Environment& environment);

/// Trains with `lockstep train` and with PyTorch's DistributedDataParallel in turn: the same
/// pictures, network, batches and optimizer, both started by `lockstep run` and so on the same
/// cores. PyTorch takes a turn for each memory layout and number of DataLoader workers.
///
/// Every job is verified. The first of each warms up, and is not counted.
///
/// Throws `Io` where a job fails, or learns nothing.
BenchReport bench_train_torch(const BenchTrainTorchOptions& options,
                              const BenchTrainPrograms& programs,
                              const topology::Environment& environment);

}  // namespace lockstep::cli
