#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/data/sets/found_set.h"

namespace lockstep::data {

/// A file of a set as it was published. A name may stand here several times: whoever packs a file
/// anew changes its checksum, but not what is in it.
struct PublishedFile {
  std::string_view name;
  std::string_view md5;
};

/// Compares files with what was published under their names.
Verification compare_checksums(const std::vector<std::filesystem::path>& files,
                               std::span<const PublishedFile> published);

}  // namespace lockstep::data
