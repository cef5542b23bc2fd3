#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

/// What the folders of checkpoints are called: "step-000000000500". While one of the same step
/// takes its place, the old one is "step-000000000500.replaced", and is found as well.
struct FolderName {
  std::int64_t step = 0;
  bool is_current = true;  ///< not replaced
};

std::string to_text(const FolderName& name);

/// Nothing where it is any other name.
std::optional<FolderName> parse_folder_name(std::string_view text);

/// How the names of folders begin that are being written or removed: nobody looks at them.
inline constexpr std::string_view kPartialPrefix = ".partial-";

/// A name of that kind, which ends in digits by chance.
std::string partial_name(std::string_view of);

}  // namespace lockstep::checkpoint
