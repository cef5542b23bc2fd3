#include "lockstep/data/sets/set_names.h"

namespace lockstep::data {

const std::vector<std::string>& sets_on_disk() {
  static const std::vector<std::string> names(kSetsOnDisk.begin(), kSetsOnDisk.end());
  return names;
}

std::vector<std::string> set_names() {
  auto names = sets_on_disk();
  names.emplace_back(kSyntheticSet);
  return names;
}

}  // namespace lockstep::data
