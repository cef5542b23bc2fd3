#pragma once

#include "lockstep/cli/train_options.h"
#include "lockstep/topology/identity.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// Refuses options that are each in order but cannot be meant together, or not in this process.
/// `app` knows which were given. The words of `written` are choices that exist, and those of its
/// request are decided. Throws `Options`, naming the options and what would work.
void check_conflicts(const CLI::App& app, const TrainOptions& written,
                     const topology::Identity& identity);

}  // namespace lockstep::cli
