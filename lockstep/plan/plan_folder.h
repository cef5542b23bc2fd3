#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep::plan {

/// Removes what was used longest ago until the plans in this folder are small enough, but never
/// `kept`; and what processes left an hour ago or before that died. Other files are left alone, and
/// what cannot be removed stays.
void tidy_plans(const std::filesystem::path& folder, const std::filesystem::path& kept,
                std::int64_t most_bytes);

}  // namespace lockstep::plan
