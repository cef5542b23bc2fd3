#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/owned_cores.h"
#include "lockstep/cli/choice.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/data_arguments.h"
#include "lockstep/cli/suggested_words.h"
#include "lockstep/data/pack/pack_dataset.h"
#include "lockstep/data/sets/find_set.h"
#include "lockstep/ui/table.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using data::PackDataset;
using data::Split;

std::vector<std::string> split_choices() {
  return {"train", "test", "all"};
}

struct Arguments {
  DataArguments data;
  std::string split = "all";
  std::string output;
  bool as_stored = false;
  std::optional<int> threads;
  bool verify = false;
};

void add_split(CLI::App& app, Arguments& to) {
  app.add_option("--split", to.split, "part of the dataset: train, test or all")
      ->check(suggest(split_choices()))
      ->type_name("NAME")
      ->capture_default_str();
}

CLI::App* add_pack(CLI::App& app, Arguments& to) {
  auto* pack =
      app.add_subcommand("pack", "convert a dataset into a pack, one file that processes share");
  set_usage(*pack, "data pack [options]");
  add_data_options(*pack, to.data);
  add_split(*pack, to);
  pack->add_option(
          "--output", to.output,
          "output file, or folder for NAME-SPLIT.pack [the cache, where later runs find the pack]")
      ->type_name("PATH");
  pack->add_flag(
      "--as-stored", to.as_stored,
      "keep JPEG and PNG files: the pack is smaller, and images are decoded when they are read");
  pack->add_option("--threads", to.threads, "number of threads that decode [one per core]")
      ->check(CLI::Range(1, 1024));
  return pack;
}

CLI::App* add_info(CLI::App& app, Arguments& to) {
  auto* info = app.add_subcommand("info", "show the contents of a dataset or of a pack");
  set_usage(*info, "data info [options]");
  add_data_options(*info, to.data);
  add_split(*info, to);
  info->add_flag("--verify", to.verify, "read all samples and verify all checksums");
  return info;
}

std::vector<Split> splits_of(const Arguments& arguments, const std::string& where) {
  check_choice(where + ": --split", arguments.split, split_choices());
  if (arguments.split == "train") return {Split::Train};
  if (arguments.split == "test") return {Split::Test};
  return {Split::Train, Split::Test};
}

/// The splits that there are: `all` may be one.
std::vector<data::FoundSet> find(const Arguments& arguments, const data::SetOptions& options) {
  const auto splits = splits_of(arguments, "data pack");
  std::vector<data::FoundSet> found;
  for (const auto split : splits) {
    try {
      found.push_back(data::find_set(arguments.data.dataset, split, options));
    } catch (const Error& error) {
      if (found.empty() || error.kind() != ErrorKind::Data) throw;
      fmt::print(stderr, "lockstep: {}\n", error.what());
    }
  }
  return found;
}

/// Redraws one line while it takes long, on a terminal only.
std::function<void(std::int64_t)> show_progress(const std::string& name) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [name](std::int64_t done) { fmt::print(stderr, "\r{}: {} samples\033[K", name, done); };
}

fs::path output_path(const Arguments& arguments, const data::FoundSet& found,
                     std::size_t number_of_splits) {
  const fs::path output = arguments.output;
  std::error_code failure;
  if (fs::is_directory(output, failure)) return output / (found.name + ".pack");
  if (number_of_splits == 1) return output;
  throw Error(ErrorKind::Options,
              fmt::format("data pack: --output: expected a folder for {} packs, found '{}'",
                          number_of_splits, output.string()),
              "make the folder first, or choose one with --split");
}

void pack_one(const data::FoundSet& found, const Arguments& arguments, const data::PackStore& store,
              std::size_t number_of_splits) {
  const data::PackRequest request{.stores_files = arguments.as_stored,
                                  .threads = arguments.threads.value_or(owned_cores()),
                                  .progress = show_progress(found.name)};
  const bool is_for_cache = arguments.output.empty();
  const auto path =
      is_for_cache ? store.path_of(found) : output_path(arguments, found, number_of_splits);
  const auto pack =
      is_for_cache ? store.check_or_make(found, request) : store.make(found, path, request);
  if (request.progress) fmt::print(stderr, "\r\033[K");
  fmt::print("{}: {} samples, {} bytes, {}\n", found.name, pack->size(), pack->file_bytes(),
             path.string());
}

int pack(const Arguments& arguments) {
  const auto options = set_options("data pack", arguments.data);
  const auto found = find(arguments, options);
  const auto store = data::pack_store(options);
  for (const auto& one : found) pack_one(one, arguments, store, found.size());
  return 0;
}

void print_info(const std::string& name, const data::Dataset& set) {
  ui::Table table({name, ""});
  table.add({"samples", std::to_string(set.size())});
  for (const auto& field : set.fields()) table.add({"field", describe(field)});
  if (!set.class_names().empty()) {
    constexpr std::size_t kShown = 10;
    const auto& names = set.class_names();
    const std::vector<std::string> first(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
    table.add({"classes", fmt::format("{}: {}{}", names.size(), fmt::join(first, ", "),
                                      names.size() > kShown ? ", …" : "")});
  }
  if (const auto* const pack = dynamic_cast<const PackDataset*>(&set)) {
    table.add(
        {"pack", fmt::format("{} bytes, {}", pack->file_bytes(),
                             pack->footer().stores_files ? "files as they were" : "decoded")});
    table.add({"originals", pack->footer().is_verified ? "have their published checksums"
                                                       : "not compared with published checksums"});
  }
  fmt::print("{}", table.to_string());
}

/// Reads every sample: packs check their blocks, files are decoded.
void read_all(const data::Dataset& set) {
  data::Sample sample(set.fields());
  for (std::int64_t i = 0; i < set.size(); ++i) {
    sample.clear();
    set.sample(i, sample);
  }
}

void tell_of(const std::string& name, const data::Dataset& set, const Arguments& arguments) {
  print_info(name, set);
  if (!arguments.verify) return;
  read_all(set);
  fmt::print("every sample was read\n");
}

/// Of all splits, the second may be missing; what is damaged is not missing.
bool is_missing(const std::string& name, Split split, const data::SetOptions& options) {
  try {
    data::find_set(name, split, options);
    return false;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::Data;
  }
}

int info(const Arguments& arguments) {
  const auto options = set_options("data info", arguments.data);
  const auto& name = arguments.data.dataset;
  const auto splits = splits_of(arguments, "data info");
  if (name.ends_with(".pack")) {  // which is one split
    tell_of(name, *data::open_set(name, splits.front(), options), arguments);
    return 0;
  }
  for (const auto split : splits) {
    try {
      tell_of(fmt::format("{}-{}", name, data::name_of(split)),
              *data::open_set(name, split, options), arguments);
    } catch (const Error& error) {
      if (split == splits.front() || !is_missing(name, split, options)) throw;
      fmt::print(stderr, "lockstep: {}\n", error.what());
    }
  }
  return 0;
}

}  // namespace

int data_command(const Invocation& invocation) {
  CLI::App app("Shows or packs datasets.", "data");
  set_usage(app, "data pack|info [options]");
  app.require_subcommand(1);
  Arguments arguments;
  const auto* const packing = add_pack(app, arguments);
  add_info(app, arguments);
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  return packing->parsed() ? pack(arguments) : info(arguments);
}

}  // namespace lockstep::cli
