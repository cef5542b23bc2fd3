#include <CLI/CLI.hpp>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {
namespace {

using Arguments = std::vector<std::string>;

constexpr const char* kFooter =
    "WEIGHTS is a .safetensors file, or a state_dict that torch.save wrote: what 'lockstep train\n"
    "--export' leaves, or the weights.safetensors of a checkpoint. For a TorchScript file that\n"
    "--model names, leave it out.\n"
    "\n"
    "All options of 'lockstep train' that are not about training can be given. Model and data are\n"
    "said as they were in training: --model, --dataset, --data-dir, --image-size, --limit-test;\n"
    "--batch-size, --replicas, --num-instances, --host, --device and --precision say how it is\n"
    "computed, and --summary FILE writes the result as JSON. Every sample counts once, whatever\n"
    "the number of replicas and instances is.\n"
    "\n"
    "Exit code: that of 'lockstep train'.\n"
    "\n"
    "Example: lockstep eval net.safetensors --model resnet20 --dataset fashion-mnist\n";

bool asks_for_help(const Arguments& arguments) {
  return std::ranges::any_of(
      arguments, [](const auto& argument) { return argument == "--help" || argument == "-h"; });
}

int show_help() {
  CLI::App app("", "eval");
  app.description("Tests a network on a data set, alone or in many instances.");
  set_usage(app, "eval [WEIGHTS] [options]");
  app.footer(kFooter);
  parse(app, {"--help"});
  return 0;
}

/// `--option value` or `--option=value`.
bool gives(const Arguments& arguments, const std::string& option) {
  return std::ranges::any_of(arguments, [&](const auto& argument) {
    return argument == option || argument.starts_with(option + "=");
  });
}

void refuse_training(const Arguments& arguments) {
  for (const auto* option : {"--epochs", "--resume", "--checkpoint-dir", "--export"}) {
    if (!gives(arguments, option)) continue;
    throw Error(ErrorKind::Options,
                std::string("eval: expected no ") + option + ": nothing is trained, found it",
                "lockstep train, for that");
  }
}

/// A file of TorchScript has weights of its own.
bool has_script(const Arguments& arguments) {
  return std::ranges::any_of(arguments, [](const auto& argument) {
    return argument.ends_with(".pt") && !argument.starts_with("--init-from");
  });
}

}  // namespace

int eval(const Invocation& invocation) {
  auto arguments = invocation.arguments;
  if (asks_for_help(arguments)) return show_help();
  refuse_training(arguments);
  if (!arguments.empty() && !arguments.front().starts_with('-')) {
    arguments.insert(arguments.begin(), "--init-from");
  } else if (!gives(arguments, "--init-from") && !has_script(arguments)) {
    throw Error(ErrorKind::Options, "eval: expected a file of weights, found none",
                "lockstep eval net.safetensors --model resnet20");
  }
  arguments.insert(arguments.begin(), {"--epochs", "0"});
  return train_elsewhere({arguments, invocation.environment});
}

}  // namespace lockstep::cli
