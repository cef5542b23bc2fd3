#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/data/formats/bytes.h"
#include "lockstep/weights/compare_logs.h"
#include "lockstep/weights/compare_weights.h"
#include "lockstep/weights/digest_log.h"
#include "lockstep/weights/weight_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using data::printable;
using weights::LogComparison;
using weights::StepDifference;
using weights::TensorDifference;

constexpr auto kFooter =
    "A and B are two runs or two weight files. A run is a digest log that a training wrote with\n"
    "--digest-every N, or the log folder that contains it as digests.jsonl. A weight file ends in\n"
    ".safetensors, .pt or .pth.\n\n"
    "For two runs, the command prints the first recorded step after which a bit of a loss or of\n"
    "a tensor differs, and the last step before it at which the runs agree. For two weight files,\n"
    "it prints each tensor that differs, the number of elements that differ, and the largest\n"
    "difference.\n\n"
    "Exit code: 0 if A and B agree, 1 if they differ, 2 or higher after an error.\n\n"
    "  lockstep diff logs/one-instance logs/four-instances\n"
    "  lockstep diff before.safetensors after.pt\n";

constexpr int kDifferent = 1;
constexpr std::size_t kMostTensors = 10;

struct DiffArguments {
  std::string a;
  std::string b;
  bool all = false;
};

enum class Kind { Log, Weights };

/// A file that can be compared, and what it is.
struct Source {
  Kind kind;
  fs::path path;
};

bool begins_like_a_log(const fs::path& path) {
  constexpr std::string_view kBegin = "{\"lockstep_digests\"";
  std::string begin(kBegin.size(), '\0');
  std::ifstream(path, std::ios::binary)
      .read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == kBegin;
}

Source find_source(const std::string& name) {
  const fs::path path = name;
  std::error_code failure;
  if (fs::is_directory(path, failure)) {
    auto log = path / weights::kDigestLogName;
    if (fs::exists(log, failure)) return {Kind::Log, std::move(log)};
    throw Error(
        ErrorKind::Data,
        fmt::format("diff: {}: expected a folder that contains {}, found none in it", name,
                    weights::kDigestLogName),
        fmt::format("record a run with lockstep train --digest-every 10 --log-dir {}", name));
  }
  const bool is_log = path.extension() == ".jsonl" || begins_like_a_log(path);
  return {is_log ? Kind::Log : Kind::Weights, path};
}

std::string others(std::size_t count) {
  return count > 1 ? fmt::format(", and {} other{}", count - 1, count == 2 ? "" : "s") : "";
}

std::string or_none(const std::string& value) {
  return value.empty() ? "none" : printable(value);
}

void print_facts(const LogComparison& result) {
  for (const auto& [key, values] : result.facts) {
    fmt::print("the runs have different options: {} {} and {}\n", printable(key),
               or_none(values.first), or_none(values.second));
  }
}

/// Each thing in which the step differs, in one line.
std::vector<std::string> parts_of(const StepDifference& step) {
  std::vector<std::string> parts;
  const auto [losses_a, losses_b] = step.numbers_of_losses;
  if (losses_a != losses_b) {
    parts.push_back(
        fmt::format("{} losses in the first run, {} in the second", losses_a, losses_b));
  }
  if (!step.losses.empty()) {
    const auto& [replica, a, b] = step.losses.front();
    parts.push_back(
        fmt::format("loss of replica {} ({} and {}){}", replica, a, b, others(step.losses.size())));
  }
  if (!step.tensors.empty()) {
    const auto& [tensor, a, b] = step.tensors.front();
    parts.push_back(fmt::format("tensor '{}' (digest {} and {}){}", printable(tensor), or_none(a),
                                or_none(b), others(step.tensors.size())));
  }
  return parts;
}

int print(const LogComparison& result) {
  print_facts(result);
  if (!result.first_difference) {
    fmt::print("the runs agree in all {} {}\n", result.equal_steps,
               result.has_steps_of_one_only ? "steps that both recorded" : "recorded steps");
    return 0;
  }
  const auto& step = *result.first_difference;
  for (const auto& part : parts_of(step)) {
    fmt::print("the runs differ first at step {}: {}\n", step.step, part);
  }
  fmt::print("the last step at which they agree: {}\n",
             result.last_equal ? std::to_string(*result.last_equal) : "none was recorded");
  return kDifferent;
}

std::string describe(const TensorDifference& difference, const DiffArguments& arguments) {
  const auto& [name, a, b, elements] = difference;
  const auto shape = [](const weights::TensorView& tensor) {
    return weights::describe(tensor.type, tensor.shape);
  };
  const auto what = fmt::format("'{}'", printable(name));
  if (a == nullptr) return fmt::format("{}: only in {}, {}", what, arguments.b, shape(*b));
  if (b == nullptr) return fmt::format("{}: only in {}, {}", what, arguments.a, shape(*a));
  if (!elements) return fmt::format("{}: {} and {}", what, shape(*a), shape(*b));
  auto text =
      fmt::format("{}: {} of {} elements differ, ", what, elements->differing, elements->total);
  if (!elements->values) return text + fmt::format("first at index {}", elements->index);
  const auto [value_a, value_b] = *elements->values;
  return text + fmt::format("most by {:.6g} at index {}: {:.9g} and {:.9g}",
                            std::abs(value_a - value_b), elements->index, value_a, value_b);
}

int compare_files(const Source& a, const Source& b, const DiffArguments& arguments) {
  const auto file_a = weights::read_weights(a.path);
  const auto file_b = weights::read_weights(b.path);
  const auto result = weights::compare_weights(file_a.set(), file_b.set());
  const auto& differences = result.differences;
  if (differences.empty()) {
    fmt::print("the files agree in all {} tensors, weights: {}\n", result.tensors, file_a.digest());
    return 0;
  }
  fmt::print("the files differ in {} of {} tensors\n", differences.size(), result.tensors);
  const auto shown =
      arguments.all ? differences.size() : std::min(kMostTensors, differences.size());
  for (std::size_t i = 0; i < shown; ++i) {
    fmt::print("  {}\n", describe(differences[i], arguments));
  }
  if (shown < differences.size()) {
    fmt::print("  and {} more; --all lists them\n", differences.size() - shown);
  }
  return kDifferent;
}

int compare(const DiffArguments& arguments) {
  const auto a = find_source(arguments.a);
  const auto b = find_source(arguments.b);
  if (a.kind != b.kind) {
    const auto kind = [](const Source& source) {
      return source.kind == Kind::Log ? "a digest log" : "a weight file";
    };
    throw Error(ErrorKind::Options,
                fmt::format("diff: expected two digest logs or two weight files, found {}, {}, and "
                            "{}, {}",
                            kind(a), a.path.string(), kind(b), b.path.string()));
  }
  if (a.kind == Kind::Weights) return compare_files(a, b, arguments);
  return print(weights::compare_logs(a.path, b.path));
}

}  // namespace

int diff_command(const Invocation& invocation) {
  CLI::App app("Finds the first difference between two runs or two weight files.", "diff");
  set_usage(app, "diff [options] A B");
  app.footer(kFooter);
  DiffArguments arguments;
  app.add_option("A", arguments.a, "a digest log, a log folder or a weight file")
      ->required()
      ->type_name("PATH");
  app.add_option("B", arguments.b, "another log or file of the same kind")
      ->required()
      ->type_name("PATH");
  app.add_flag(
      "--all", arguments.all,
      fmt::format("list all tensors that differ between weight files, not only the first {}",
                  kMostTensors));
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  const int code = compare(arguments);
  // A difference must not be told by the exit code alone because a disk is full.
  if (std::fflush(stdout) != 0) throw io_error("standard output");
  return code;
}

}  // namespace lockstep::cli
