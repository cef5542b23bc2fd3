#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep::checkpoint {

/// What a training is to go on from.
struct Resume {
  enum class From : std::uint8_t {
    Nothing,      ///< it begins
    Newest,       ///< the newest whole checkpoint of its folder, which has to be there
    NewestIfAny,  ///< the same, or it begins where there is none
    Path,         ///< this one, or the newest in this folder
  };
  From from = From::Nothing;
  std::filesystem::path path{};
  bool operator==(const Resume&) const = default;
};

inline constexpr std::string_view kNewest = "newest";

/// "auto" is `NewestIfAny`, "newest" or nothing is `Newest`, and all else a path.
LOCKSTEP_API Resume parse_resume(std::string_view text);

}  // namespace lockstep::checkpoint
