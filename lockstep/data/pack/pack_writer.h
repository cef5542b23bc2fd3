#pragma once

#include <cstdint>
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
  /// Keep pictures as the files that they are, where the set has files; they are decoded whenever
  /// they are read. Else they are decoded now, and never again.
  bool stores_files = false;
  int threads = 1;  ///< that decode
  /// Told after every few samples how many are done.
  std::function<void(std::int64_t)> progress{};
};

/// Writes a whole set into an open file, from its beginning.
/// Throws `Io` where it cannot be written (`where` names it), and what reading a sample throws.
void write_pack(int file, const std::string& where, const Dataset& set, const PackOptions& options);

}  // namespace lockstep::data
