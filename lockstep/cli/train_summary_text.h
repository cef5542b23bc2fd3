#pragma once

#include <string>

#include "lockstep/train/train_summary.h"

namespace lockstep::cli {

/// What ends the output of `lockstep train`: a few lines, the digest last.
std::string to_text(const train::TrainSummary& summary);

/// All of it, for `--summary`. What there is none of, and what is not a number, is null.
std::string to_json(const train::TrainSummary& summary);

}  // namespace lockstep::cli
