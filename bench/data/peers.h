#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/data/measure_data.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/sets/image_folder.h"

namespace lockstep::bench {

/// The time in which `threads` threads together copy the values of `batch_size` samples in random
/// order. Measures for `time`.
Seconds copy_batch(const data::Dataset& set, int threads, std::int64_t batch_size, Seconds time);

/// The time in which they decode `batch_size` files that are in memory.
Seconds decode_batch(const data::ImageFolder& folder, int threads, std::int64_t batch_size,
                     Seconds time);

/// The times of torch for one work with one number of workers.
struct TorchResult {
  LoadWork work;
  int workers = 0;
  std::vector<Seconds> per_batch;
};

/// Runs the works with torchvision and torch's DataLoader, with several numbers of workers.
/// Compares the first images with those of lockstep. Writes files for the script to `folder`.
std::vector<TorchResult> measure_torch(const DataOptions& options, const data::Dataset& set,
                                       const std::filesystem::path& folder,
                                       const topology::Environment& environment);

}  // namespace lockstep::bench
