#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/formats/bytes.h"

namespace lockstep::data {

/// A file that was packed into an archive.
struct ArchivedFile {
  std::string name;  ///< with the folders it is in, as in "cifar-10-batches-py/test_batch"
  std::string content;
};

struct ArchiveOptions {
  /// Which files to read. The others are passed over.
  std::function<bool(std::string_view name)> wanted;
  /// What an archive may unpack to: a small one can unpack to more than the memory that there is.
  std::size_t most_bytes = std::size_t{1} << 30;
};

/// Reads files out of a `.tar` or `.tar.gz` in memory, in the order in which they are stored, and
/// checks it to its end. Links, folders and devices are passed over, files with holes are refused.
///
/// Errors: `Data`, which `where` begins. What is wrong inside the tar is told by its offset in the
/// unpacked archive.
std::vector<ArchivedFile> read_archive(Bytes archive, std::string_view where,
                                       const ArchiveOptions& options);

}  // namespace lockstep::data
