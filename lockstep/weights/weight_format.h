#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep::weights {

enum class WeightFormat : std::uint8_t { Safetensors, StateDict };

LOCKSTEP_API std::string_view name_of(WeightFormat format) noexcept;

/// The format that a name asks for. Throws `Options` where it is none of them: to be asked before
/// hours of training, not after.
LOCKSTEP_API WeightFormat format_for(const std::filesystem::path& path);

}  // namespace lockstep::weights
