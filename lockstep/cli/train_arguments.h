#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/run_arguments.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cli/vector_unit.h"
#include "lockstep/topology/identity.h"
#include "lockstep/train/jobs/train_request.h"

namespace lockstep::cli {

/// An option of a command line that was given, by its first name.
struct GivenOption {
  std::string name;                    ///< "--batch-size"
  std::optional<std::string> value{};  ///< none for a flag that is plainly set
  bool is_flag = false;                ///< it may be without a value

  bool operator==(const GivenOption&) const = default;
};

/// Everything that the command line of `lockstep train`, `plan` or `eval` says.
struct TrainArguments {
  TrainCommand command = TrainCommand::Train;
  train::TrainRequest request;
  train::EvaluationRequest evaluation{};  ///< of `lockstep eval`
  /// What the launcher is to do, all but the command, where it takes one.
  RunArguments job;
  VectorUnit vector_unit = VectorUnit::Auto;
  std::string json_file{};  ///< of `lockstep plan` and `lockstep eval`
  std::vector<GivenOption> given;
  std::vector<GivenOption> defaults{};  ///< of the options that were not given, if they have one
};

/// Reads the arguments behind `lockstep train`, `plan` or `eval`, in a process that `identity`
/// describes. Refuses everything that is known to be wrong without data and model, within a
/// millisecond. Returns nothing if the help was shown. For `eval --checkpoint`, reads the manifest
/// of the checkpoint, which sets options that are not given.
///
/// Errors: `Options`, naming the options that exclude each other; `Unavailable` for a device or a
/// vector unit that is not here; `Io` for a file that could not be written at the end.
std::optional<TrainArguments> parse_train_arguments(const std::vector<std::string>& arguments,
                                                    const topology::Identity& identity,
                                                    TrainCommand command = TrainCommand::Train);

}  // namespace lockstep::cli
