#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/export.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/sets/synthetic.h"

namespace lockstep::data {

/// Where a set is looked for, and what is done on the way.
struct SetOptions {
  /// The folder with the set's files, or with a pack of it; empty: `datasets`, and where Debian's
  /// packages put them.
  std::filesystem::path data_dir{};
  /// Where packs are made; unset: LOCKSTEP_CACHE_PATH, else the user's cache.
  std::optional<std::filesystem::path> cache_dir{};
  SyntheticOptions synthetic{};  ///< for the set "synthetic"; its split is the one asked for
  /// Hears of what a user should know; unset: instance 0 writes it to standard error.
  std::function<void(const std::string&)> tell{};
};

/// A set by its name, or a pack by its path (anything that ends in ".pack").
///
/// Sets of small pictures are packed once, into the cache, and mapped from then on, so that every
/// process of a host shares them. `<name>-<split>.pack` in the data folder is used where there is
/// one.
///
/// Errors: `Options` for a name that is none; `Data` where the set is missing, with where to get
/// it, truncated, damaged or something else, with file, offset and expectation.
LOCKSTEP_API DatasetPtr open_set(const std::string& name, Split split,
                                 const SetOptions& options = {});

LOCKSTEP_API DatasetPtr cifar10(const std::filesystem::path& data_dir, Split split);
LOCKSTEP_API DatasetPtr cifar100(const std::filesystem::path& data_dir, Split split);
LOCKSTEP_API DatasetPtr mnist(const std::filesystem::path& data_dir, Split split);
LOCKSTEP_API DatasetPtr fashion_mnist(Split split, const std::filesystem::path& data_dir = {});
LOCKSTEP_API DatasetPtr image_folder(const std::filesystem::path& data_dir, Split split);

}  // namespace lockstep::data
