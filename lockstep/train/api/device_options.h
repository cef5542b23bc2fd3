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

/// Where the gradients of several instances with GPUs are added up.
enum class GpuTransport : std::uint8_t {
  Auto,  ///< NCCL where each instance has a GPU of its own, else the host
  Host,  ///< in the memory of hosts, and between them as for CPUs
  Nccl,  ///< on the GPUs; each instance needs one of its own
};

constexpr std::string_view name_of(DeviceKind kind) noexcept {
  return kind == DeviceKind::Cpu ? "cpu" : "cuda";
}
constexpr std::string_view name_of(Fuse fuse) noexcept {
  return fuse == Fuse::Auto ? "auto" : "off";
}

constexpr std::string_view name_of(GpuTransport transport) noexcept {
  if (transport == GpuTransport::Host) return "host";
  return transport == GpuTransport::Nccl ? "nccl" : "auto";
}

}  // namespace lockstep
