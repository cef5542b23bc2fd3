#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lockstep/gpu/memory.h"
#include "lockstep/gpu/pictures/picture_plan.h"
#include "lockstep/gpu/pictures/pixels.h"

namespace lockstep::gpu {

/// Makes batches of pictures on the current GPU, from a set in its memory, as a plan says.
///
///     PicturePlanner planner(pipeline, set.fields()[0]);
///     PictureMaker maker(planner, batch_size);
///     planner.plan(samples, seed, epoch, pinned);        // on the host, ahead of use
///     copy_to_device(pinned.data(), passes, bytes, stream);
///     maker.make(set.values(0), passes, batch_size, out, stream);
///
/// It keeps no reference to the planner. One stream at a time: pictures between two resizes lie in
/// memory of its own.
class PictureMaker {
 public:
  PictureMaker(const PicturePlanner& planner, std::int64_t most_samples);

  /// `set` is the field of pictures of a `DeviceSet`; `passes` is what `PicturePlanner::plan` wrote
  /// for this many samples, in the GPU's memory. Throws `Options` for more than were announced.
  void make(const std::byte* set, const PicturePass* passes, std::int64_t samples, void* out,
            Stream stream) const;

 private:
  std::vector<PassShape> shapes_;
  DataType type_;
  std::int64_t most_samples_;
  data::kernels::Division division_;
  DeviceMemory tables_;
  DeviceMemory values_;
  std::array<DeviceMemory, 2> between_;  ///< a pass reads what the one before it wrote
};

}  // namespace lockstep::gpu
