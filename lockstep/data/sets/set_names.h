#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

// Apart from the catalog, so that a command line can be read without linking decoders.

/// Sets that are read from files; "folder" is pictures, a folder per class.
inline constexpr std::array<std::string_view, 5> kSetsOnDisk{"cifar10", "cifar100", "mnist",
                                                             "fashion-mnist", "folder"};
inline constexpr std::string_view kSyntheticSet = "synthetic";

/// `kSetsOnDisk`.
const std::vector<std::string>& sets_on_disk();
/// Those, and "synthetic".
std::vector<std::string> set_names();

}  // namespace lockstep::data
