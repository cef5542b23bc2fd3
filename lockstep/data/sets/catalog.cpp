#include "lockstep/data/sets/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/strings.h"
#include "lockstep/data/sets/cifar.h"
#include "lockstep/data/sets/find_set.h"
#include "lockstep/data/sets/image_folder.h"
#include "lockstep/data/sets/mnist.h"
#include "lockstep/data/sets/set_names.h"
#include "lockstep/topology/cache_folder.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsualFolder = "datasets";

struct Entry {
  std::string_view name;
  FoundSet (*find)(const fs::path& data_dir, Split split);
};

constexpr Entry kEntries[] = {{"cifar10", find_cifar10},
                              {"cifar100", find_cifar100},
                              {"mnist", find_mnist},
                              {"fashion-mnist", find_fashion_mnist},
                              {"folder", find_image_folder}};
static_assert(std::ranges::equal(kEntries, kSetsOnDisk, {}, &Entry::name));

[[noreturn]] void refuse(const std::string& name) {
  const auto names = set_names();
  const auto meant = closest(name, names);
  throw Error(ErrorKind::Options,
              fmt::format("data: expected a set ({}) or the path of a .pack to be read, found '{}'",
                          fmt::join(names, ", "), name),
              meant ? fmt::format("did you mean '{}'?", *meant) : "");
}

/// Lines from one process are enough.
Tell tell_as_instance_0() {
  const auto identity = topology::read_identity(topology::Environment::of_this_process());
  if (identity.instance != 0) return [](const std::string&) {};
  return [](const std::string& line) { log_line(line); };
}

/// The pack that someone put into the data folder, if there is one.
std::shared_ptr<const PackDataset> find_beside(const std::string& name, Split split,
                                               const fs::path& data_dir) {
  const auto wanted = fmt::format("{}-{}", name, name_of(split));
  const auto path = (data_dir.empty() ? fs::path(kUsualFolder) : data_dir) / (wanted + ".pack");
  std::error_code failure;
  if (!fs::exists(path, failure)) return nullptr;
  auto pack = PackDataset::open(path);
  if (pack->footer().name == wanted) return pack;
  throw Error(ErrorKind::Data, fmt::format("{}: expected a pack of {}, found one of {}",
                                           path.string(), wanted, pack->footer().name));
}

/// Through a pack where that is possible.
DatasetPtr open_found(const FoundSet& found, const PackStore& store, const Tell& tell) {
  try {
    const auto pack = found.packs_by_itself ? store.find_or_make(found) : store.find(found);
    if (!pack) return found.read();
    tell_of_originals(*pack, tell);
    return pack;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Io) throw;
    auto set = found.read();  // which throws, if it is the originals that cannot be read
    tell(fmt::format("lockstep: warning: {}; the set is kept in this process's own memory",
                     error.what()));
    return set;
  }
}

/// A set that is made up, as one that could be packed.
FoundSet find_synthetic(Split split, SyntheticOptions options) {
  options.split = split;
  return {.name = fmt::format("{}-{}", kSyntheticSet, name_of(split)),
          .files = {},
          .recipe = fmt::format("{} {} {}x{}x{} {}", options.size, options.classes, options.height,
                                options.width, options.channels, options.seed),
          .read = [options] { return synthetic(options); },
          .verify = [] { return Verification{}; }};
}

/// Where it is looked for when nobody says where: Fashion-MNIST has a usual place of its own.
FoundSet find_where_usual(const Entry& entry, Split split) {
  const bool has_own_place = entry.find == find_fashion_mnist;
  std::error_code failure;
  if (has_own_place && !fs::exists(kUsualFolder, failure)) return entry.find({}, split);
  try {
    return entry.find(kUsualFolder, split);
  } catch (const Error&) {
    if (!has_own_place) throw;
    return entry.find({}, split);
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

FoundSet find_set(const std::string& name, Split split, const SetOptions& options) {
  if (name == kSyntheticSet) return find_synthetic(split, options.synthetic);
  for (const auto& entry : kEntries) {
    if (name != entry.name) continue;
    return options.data_dir.empty() ? find_where_usual(entry, split)
                                    : entry.find(options.data_dir, split);
  }
  refuse(name);
}

PackStore pack_store(const SetOptions& options) {
  const auto all = decided(options);
  return PackStore(*all.cache_dir / "packs", all.tell);
}

DatasetPtr open_set(const std::string& name, Split split, const SetOptions& options) {
  if (name.ends_with(".pack")) return PackDataset::open(name);
  if (name == kSyntheticSet) return find_set(name, split, options).read();
  if (std::ranges::find(sets_on_disk(), name) == sets_on_disk().end()) refuse(name);
  const auto all = decided(options);
  if (const auto pack = find_beside(name, split, all.data_dir)) {
    tell_of_originals(*pack, all.tell);
    return pack;
  }
  return open_found(find_set(name, split, all), pack_store(all), all.tell);
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
