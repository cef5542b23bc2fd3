#include "lockstep/data/sets/catalog.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/strings.h"
#include "lockstep/data/sets/cifar.h"
#include "lockstep/data/sets/image_folder.h"
#include "lockstep/data/sets/mnist.h"
#include "lockstep/topology/cache_folder.h"
#include "lockstep/topology/identity.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSynthetic = "synthetic";
constexpr const char* kUsualFolder = "datasets";

struct Entry {
  const char* name;
  FoundSet (*find)(const fs::path& data_dir, Split split);
};

constexpr Entry kEntries[] = {{"cifar10", find_cifar10},
                              {"cifar100", find_cifar100},
                              {"mnist", find_mnist},
                              {"fashion-mnist", find_fashion_mnist},
                              {"folder", find_image_folder}};

[[noreturn]] void refuse(const std::string& name) {
  const auto names = set_names();
  const auto meant = closest(name, names);
  throw Error(ErrorKind::Options,
              fmt::format("data: expected a set ({}) or the path of a pack, found '{}'",
                          fmt::join(names, ", "), name),
              meant ? fmt::format("did you mean '{}'?", *meant) : "");
}

/// Lines from one process are enough.
Tell tell_as_instance_0() {
  const auto identity = topology::read_identity(topology::Environment::of_this_process());
  if (identity.instance != 0) return [](const std::string&) {};
  return [](const std::string& line) { log_line(line); };
}

void tell_if_verified(const PackDataset& pack, const Tell& tell) {
  if (pack.footer().is_verified) tell("Files already downloaded and verified");
}

/// The pack that someone put into the data folder, if there is one.
DatasetPtr find_beside(const std::string& name, Split split, const fs::path& data_dir) {
  const auto path = data_dir / fmt::format("{}-{}.pack", name, name_of(split));
  return fs::exists(path) ? PackDataset::open(path) : nullptr;
}

/// Through a pack where that is possible.
DatasetPtr open_found(const FoundSet& found, const PackStore& store, const Tell& tell) {
  if (auto pack = store.find(found)) {
    tell_if_verified(*pack, tell);
    return pack;
  }
  if (!found.packs_by_itself) return found.read();
  try {
    auto pack = store.find_or_make(found);
    tell_if_verified(*pack, tell);
    return pack;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Io) throw;
    tell(fmt::format("lockstep: warning: {}; the set is kept in this process's own memory",
                     error.what()));
    return found.read();
  }
}

SetOptions decided(SetOptions options) {
  if (!options.tell) options.tell = tell_as_instance_0();
  if (!options.cache_dir) {
    options.cache_dir = topology::cache_folder(topology::Environment::of_this_process());
  }
  return options;
}

}  // namespace

const std::vector<std::string>& sets_on_disk() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& entry : kEntries) all.emplace_back(entry.name);
    return all;
  }();
  return names;
}

std::vector<std::string> set_names() {
  auto names = sets_on_disk();
  names.emplace_back(kSynthetic);
  return names;
}

FoundSet find_set(const std::string& name, Split split, const fs::path& data_dir) {
  for (const auto& entry : kEntries) {
    if (name != entry.name) continue;
    if (!data_dir.empty()) return entry.find(data_dir, split);
    // Fashion-MNIST has a usual place of its own, and finds it by itself.
    if (name == "fashion-mnist" && !fs::exists(kUsualFolder)) return entry.find({}, split);
    try {
      return entry.find(kUsualFolder, split);
    } catch (const Error&) {
      if (name != "fashion-mnist") throw;
      return entry.find({}, split);
    }
  }
  refuse(name);
}

PackStore pack_store(const SetOptions& options) {
  const auto all = decided(options);
  return PackStore(*all.cache_dir / "packs", all.tell);
}

DatasetPtr open_set(const std::string& name, Split split, const SetOptions& options) {
  if (name == kSynthetic) {
    auto made_up = options.synthetic;
    made_up.split = split;
    return synthetic(made_up);
  }
  const auto all = decided(options);
  if (name.ends_with(".pack")) return PackDataset::open(name);
  if (std::ranges::find(sets_on_disk(), name) == sets_on_disk().end()) refuse(name);
  if (auto pack = find_beside(name, split, all.data_dir)) return pack;
  return open_found(find_set(name, split, all.data_dir), pack_store(all), all.tell);
}

DatasetPtr cifar10(const fs::path& data_dir, Split split) {
  return open_set("cifar10", split, {.data_dir = data_dir});
}

DatasetPtr cifar100(const fs::path& data_dir, Split split) {
  return open_set("cifar100", split, {.data_dir = data_dir});
}

DatasetPtr mnist(const fs::path& data_dir, Split split) {
  return open_set("mnist", split, {.data_dir = data_dir});
}

DatasetPtr fashion_mnist(Split split, const fs::path& data_dir) {
  return open_set("fashion-mnist", split, {.data_dir = data_dir});
}

DatasetPtr image_folder(const fs::path& data_dir, Split split) {
  return open_set("folder", split, {.data_dir = data_dir});
}

}  // namespace lockstep::data
