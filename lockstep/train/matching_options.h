#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/data_loader.h"
#include "lockstep/train/job_layout.h"
#include "lockstep/train/options.h"

// What the bits of a training depend on, as names and values: checkpoints hold it, and a training
// that goes on from one must have the same.

namespace lockstep::train {

using NamedOptions = std::vector<std::pair<std::string, std::string>>;

NamedOptions matching_options(const Options& options, const JobLayout& layout,
                              const Optimizer& optimizer);
NamedOptions matching_options(const DataLoader& loader);

/// Errors: `Options`, with each of `now` whose value was another when the checkpoint was taken.
void check_matches(const checkpoint::Manifest& checkpoint, const std::string& path,
                   const NamedOptions& now);

}  // namespace lockstep::train
