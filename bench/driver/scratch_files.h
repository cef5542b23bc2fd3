#pragma once

#include <cstdint>
#include <filesystem>

#include "lockstep/data/dataset.h"

namespace lockstep::bench {

/// A new, empty folder. The destructor removes it with everything in it.
/// Throws `Io` if it cannot be created.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Writes one field of the first samples to a file, one value after the other, for
/// `numpy.fromfile`. Throws `Io`.
void write_values(const data::Dataset& set, std::size_t field, std::int64_t samples,
                  const std::filesystem::path& path);

}  // namespace lockstep::bench
