#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/cli/data_arguments.h"
#include "lockstep/cli/launch_arguments.h"
#include "lockstep/train/jobs/train_request.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// The commands of lockstep-train that share options: `train`, `plan` (shows what a training would
/// decide) and `eval` (computes the accuracy of weights).
enum class TrainCommand { Train, Plan, Eval };
std::string_view name_of(TrainCommand command) noexcept;

/// The options of `lockstep train` as they are written: numbers in their places, names of choices
/// still as words, and flags that exclude each other.
struct TrainOptions {
  explicit TrainOptions(TrainCommand of = TrainCommand::Train);

  TrainCommand command;
  train::TrainRequest request;
  LaunchArguments launch;
  DataArguments data;
  std::string image_size;
  std::string augment;

  std::string optimizer = "sgd";
  std::optional<double> lr;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  std::string decay_of = "all";
  std::optional<double> clip_norm;
  std::optional<double> ema_decay;
  std::string schedule;
  std::string precision;
  std::string half;
  std::string reduction;
  std::string reduction_order;
  bool deterministic = false;
  std::string fuse = "auto";
  std::string gpu_transport = "auto";

  std::string resume;  ///< as `Options::resume` takes it, if it was given

  bool async_loader = false;
  bool sync_loader = false;

  std::string split;
  std::string pipeline;
  std::string recompute;  ///< empty: nothing is
  std::string overlap = "on";

  std::string device = "auto";
  std::string cpu_features = "auto";
  std::string json_file;  ///< of `lockstep plan` and `lockstep eval`

  // Of `lockstep eval`.
  train::EvaluationRequest evaluation;
  std::string evaluated_split;
  std::string evaluated_samples;  ///< "FIRST:END"; empty: all
  std::string checkpoint_weights;
};

/// Adds the options of the command that `to` is made for, under the headings of the help.
void add_train_options(CLI::App& app, TrainOptions& to);

}  // namespace lockstep::cli
