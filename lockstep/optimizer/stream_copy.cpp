#include "lockstep/optimizer/stream_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/optimizer/stream_copy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::optimizer::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

HWY_ATTR void stream(const float* from, float* to, std::size_t count) {
  const hn::ScalableTag<float> tag;
  const std::size_t lanes = hn::Lanes(tag);
  const auto misaligned =
      reinterpret_cast<std::uintptr_t>(to) % (lanes * sizeof(float)) / sizeof(float);
  std::size_t i = std::min(count, misaligned == 0 ? 0 : lanes - misaligned);
  std::copy_n(from, i, to);
  for (; i + lanes <= count; i += lanes) hn::Stream(hn::LoadU(tag, from + i), tag, to + i);
  std::copy_n(from + i, count - i, to + i);
}

}  // namespace
}  // namespace lockstep::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace lockstep::optimizer {
HWY_EXPORT(stream);

void stream_piece(std::span<const float> from, std::span<float> to) {
  HWY_DYNAMIC_DISPATCH(stream)(from.data(), to.data(), std::min(from.size(), to.size()));
}

void end_pieces() noexcept {
  hwy::FlushStream();
}

void stream_copy(std::span<const float> from, std::span<float> to) {
  stream_piece(from, to);
  end_pieces();
}

}  // namespace lockstep::optimizer

#endif
