#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// What computes replicas.
enum class DeviceKind : std::uint8_t {
  Cpu,   ///< cores of the host
  Cuda,  ///< a GPU for each instance, round robin; several may share one
};

/// How many micro-batches a GPU computes as one batch. What is computed is the same, within
/// rounding.
enum class Fuse : std::uint8_t {
  Auto,  ///< all of an instance; where training is deterministic, all of one replica
  Off,   ///< each by itself
};

constexpr std::string_view name_of(DeviceKind kind) noexcept {
  return kind == DeviceKind::Cpu ? "cpu" : "cuda";
}
constexpr std::string_view name_of(Fuse fuse) noexcept {
  return fuse == Fuse::Auto ? "auto" : "off";
}

}  // namespace lockstep
