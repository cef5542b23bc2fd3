#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::weights {

enum class WeightFormat : std::uint8_t { Safetensors, StateDict };

std::string_view name_of(WeightFormat format) noexcept;

/// The format that a name asks for. Throws `Options` where it is none of them: to be asked before
/// hours of training, not after.
WeightFormat format_for(const std::filesystem::path& path);

}  // namespace lockstep::weights
