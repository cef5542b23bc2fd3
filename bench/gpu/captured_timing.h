#pragma once

#include <functional>

#include "lockstep/gpu/memory.h"
#include "lockstep/gpu/stream.h"

namespace lockstep::bench {

/// A stream whose work can be captured, which CUDA's default stream does not allow.
class OwnStream {
 public:
  OwnStream();
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  gpu::Stream get() const noexcept { return stream_; }

 private:
  gpu::Stream stream_ = nullptr;
};

/// The median time of `work(set)`, many calls of which are captured as one, as an engine captures
/// its steps, so that gaps between them are small. Sets are used in turn: what one call leaves in
/// the cache is not what the next one reads.
double microseconds_of(gpu::Stream stream, int sets, const std::function<void(int set)>& work);

/// Bytes per second of a copy within the GPU, read and written.
double copy_bandwidth(gpu::Stream stream);

}  // namespace lockstep::bench
