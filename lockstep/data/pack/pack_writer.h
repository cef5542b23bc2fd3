#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/pack/pack_layout.h"

namespace lockstep::data {

struct PackOptions {
  std::string name{};         ///< what messages call the set
  std::string fingerprint{};  ///< of the originals
  bool is_verified = false;
  std::vector<std::string> differing{};  ///< see `PackFooter`
  /// Keep pictures as the files that they are, where the set has files; they are decoded whenever
  /// they are read. Else they are decoded now, and never again.
  bool stores_files = false;
  int threads = 1;  ///< that decode
  /// Told after every few samples how many are done.
  std::function<void(std::int64_t)> progress{};
};

/// Makes a pack of any set. The file appears under its name when it is complete, in place of what
/// is there; a crash before that leaves it as it was, and a file `<path>.partial.…`.
///
/// Throws `Io` where it cannot be written, `Options` where what is there is no plain file, and what
/// reading a sample throws, with its index and source.
void write_pack(const std::filesystem::path& path, const Dataset& set, const PackOptions& options);

/// The same into an open file; `where` names it.
void write_pack(int file, const std::string& where, const Dataset& set, const PackOptions& options);

}  // namespace lockstep::data
