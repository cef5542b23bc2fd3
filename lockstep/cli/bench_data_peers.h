#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cli/bench_data.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/sets/image_folder.h"

namespace lockstep::cli {

/// Seconds that it takes `threads` threads together to copy the values of `batch_size` samples, in
/// random order, measured for a while.
Seconds copy_batch(const data::Dataset& set, int threads, std::int64_t batch_size, Seconds time);

/// The same, for decoding files that are in memory, and doing nothing with the pictures.
Seconds decode_batch(const data::ImageFolder& folder, int threads, std::int64_t batch_size,
                     Seconds time);

/// What torch reached for one work with one number of workers.
struct TorchResult {
  LoadWork work;
  int workers = 0;
  std::vector<Seconds> per_batch;
};

/// Runs the works through torchvision and torch's DataLoader, with several numbers of workers. What
/// they make of the first pictures is compared with ours. `folder` is for files that both read.
std::vector<TorchResult> measure_torch(const BenchDataOptions& options, const data::Dataset& set,
                                       const std::filesystem::path& folder,
                                       const topology::Environment& environment);

}  // namespace lockstep::cli
