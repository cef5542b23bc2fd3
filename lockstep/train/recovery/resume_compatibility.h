#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/planner/job_layout.h"

// The options that change the bits of a training, as names and values. A checkpoint has them, and a
// training that continues it must have the same.

namespace lockstep::train {

using NamedOptions = std::vector<std::pair<std::string, std::string>>;

NamedOptions matching_options(const Options& options, const JobLayout& layout,
                              const Optimizer& optimizer);
NamedOptions matching_options(const DataLoader& loader);

/// The compared options. Those of a loader may be known later than the others.
enum class Compared : std::uint8_t { All, AllButLoader, LoaderAlone };

/// Errors: `Options`, with all options that have another value than in the checkpoint.
void check_matches(const checkpoint::Manifest& manifest, const std::string& path,
                   const NamedOptions& now, Compared compared);

/// A fingerprint of the options of a loader; 0 if there are none.
std::uint64_t loader_print(const NamedOptions& options);

}  // namespace lockstep::train
