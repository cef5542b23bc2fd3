#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/planner/job_layout.h"

// What the bits of a training depend on, as names and values: checkpoints hold it, and a training
// that goes on from one must have the same.

namespace lockstep::train {

using NamedOptions = std::vector<std::pair<std::string, std::string>>;

NamedOptions matching_options(const Options& options, const JobLayout& layout,
                              const Optimizer& optimizer);
NamedOptions matching_options(const DataLoader& loader);

/// What of the options is compared: those of a loader may be known later than the others.
enum class Compared : std::uint8_t { All, AllButLoader, LoaderAlone };

/// Errors: `Options`, with each whose value was another when the checkpoint was taken.
void check_matches(const checkpoint::Manifest& manifest, const std::string& path,
                   const NamedOptions& now, Compared compared);

/// A number that stands for the values of a loader's options among others; 0 where there are none.
std::uint64_t loader_print(const NamedOptions& options);

}  // namespace lockstep::train
