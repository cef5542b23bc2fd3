#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Whether files are the ones that were published, bit for bit.
struct Verification {
  bool all_known = false;                ///< every file is one whose checksum is published
  std::vector<std::string> differing{};  ///< files that are known and have another checksum
};

/// A data set that was found on disk and not yet read.
struct FoundSet {
  std::string name;  ///< "cifar10-train"
  /// What it is read from. Names, sizes and times of change tell whether a pack made of it is
  /// still right.
  std::vector<std::filesystem::path> files;
  /// What sets it apart where there are no files: how it is made up.
  std::string recipe{};
  /// Whether it is worth packing without being asked: small pictures in a few files are, folders
  /// of large ones are not.
  bool packs_by_itself = true;
  /// Reads it, checking the structure of each file. Throws `Data`, naming file, offset and
  /// expectation.
  std::function<DatasetPtr()> read;
  /// Compares checksums; reads every byte.
  std::function<Verification()> verify;
};

}  // namespace lockstep::data
