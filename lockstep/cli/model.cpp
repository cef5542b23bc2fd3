#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/cli/command.h"
#include "lockstep/cli/model_arguments.h"
#include "lockstep/nn/describe_model.h"
#include "lockstep/ui/table.h"

namespace lockstep::cli {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void print(const nn::ModelRequest& request, const nn::ModelDescription& model) {
  ui::Table facts({"model", request.model});
  facts.add({"input", shape_text(request.picture())});
  facts.add({"classes", std::to_string(model.classes)});
  facts.add({"parameters", std::to_string(model.parameters)});
  facts.add({"buffers", std::to_string(model.buffers)});
  facts.add({"multiply-adds", fmt::format("{} per image", model.multiply_adds)});
  ui::Table blocks({"block", "output"});
  for (const auto& block : model.blocks) blocks.add({block.name, shape_text(block.output)});
  fmt::print("{}\n{}\nweights: {}\n", facts.to_string(), blocks.to_string(), model.digest);
}

}  // namespace

int model_command(const Invocation& invocation) {
  CLI::App app("Shows a network: its blocks, its size, and the digest of its weights.", "model");
  set_usage(app, "model [options]");
  ModelArguments arguments;
  std::string export_to;
  add_model_options(app, arguments);
  app.add_option("--export", export_to,
                 "write the weights: .safetensors, or .pt and .pth for torch.load")
      ->type_name("FILE");
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  const auto request = model_request("model", arguments);
  print(request, nn::describe_model(request, export_to));
  return 0;
}

}  // namespace lockstep::cli
