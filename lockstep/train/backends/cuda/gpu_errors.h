#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/topology/placement.h"
#include "lockstep/train/api/options.h"

namespace lockstep::train {

/// What a GPU is doing, for errors.
struct GpuSite {
  int device = 0;
  topology::ReplicaRange replicas{};
  std::optional<std::int64_t> step{};  ///< of the training, from 0
  Fuse fuse = Fuse::Auto;
};

/// What went wrong, with where that was: "GPU 0, replicas 0 to 7, step 12: …"; and, where there was
/// too little memory, with what takes less.
Error gpu_error(const GpuSite& site, const c10::Error& error);
Error gpu_error(const GpuSite& site, const Error& error);

/// Runs `action`, and says of what it throws where that was.
template <typename Action>
auto with_gpu_errors(const GpuSite& site, const Action& action) {
  try {
    return action();
  } catch (const c10::Error& error) {
    throw gpu_error(site, error);
  } catch (const Error& error) {
    throw gpu_error(site, error);
  }
}

}  // namespace lockstep::train
