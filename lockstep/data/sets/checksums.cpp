#include "lockstep/data/sets/checksums.h"

#include <algorithm>

#include "lockstep/data/formats/md5.h"

namespace lockstep::data {

Verification compare_checksums(const std::vector<std::filesystem::path>& files,
                               std::span<const PublishedFile> published) {
  Verification result{.all_known = true};
  for (const auto& file : files) {
    const auto name = file.filename().string();
    const auto has_name = [&](const PublishedFile& known) { return known.name == name; };
    if (std::none_of(published.begin(), published.end(), has_name)) {
      result.all_known = false;
      continue;
    }
    const auto md5 = md5_of(file);
    const auto is_same = [&](const PublishedFile& known) {
      return known.name == name && known.md5 == md5;
    };
    if (std::none_of(published.begin(), published.end(), is_same)) {
      result.all_known = false;
      result.differing.push_back(file.string());
    }
  }
  return result;
}

}  // namespace lockstep::data
