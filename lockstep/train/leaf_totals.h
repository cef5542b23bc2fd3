#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/train/weight_layout.h"

namespace lockstep::train {

/// What each leaf says beside gradients, and everybody learns of all leaves: which tensors have
/// something new, the replicas' losses, sums of metrics, what somebody asks of all, and whether
/// integer buffers agree.
///
/// All of it is added up in f32. A replica writes its loss into a place of its own, so that it
/// comes out as it went in, and one that is not a number does not hide the others. Integer buffers
/// are told by the bytes of a hash: they agree if, for everybody, the sum is R times one's own.
class LeafTotals {
 public:
  static constexpr std::size_t kHashBytes = 8;
  static constexpr std::size_t kRequests = 2;

  LeafTotals(const WeightLayout& layout, int replicas, std::size_t metrics)
      : tensors_(layout.parameters.size() + layout.buffers.size()),
        replicas_(static_cast<std::size_t>(replicas)),
        metrics_(metrics) {}

  std::size_t count() const noexcept {
    return tensors_ + replicas_ + metrics_ + kRequests + kHashBytes;
  }

  /// By parameter, then buffer: not zero where a replica has a gradient, or changed it.
  template <typename Number>
  std::span<Number> changed(std::span<Number> totals) const {
    return totals.first(tensors_);
  }
  template <typename Number>
  std::span<Number> losses(std::span<Number> totals) const {
    return totals.subspan(tensors_, replicas_);
  }
  template <typename Number>
  std::span<Number> metrics(std::span<Number> totals) const {
    return totals.subspan(tensors_ + replicas_, metrics_);
  }
  /// Not zero where an instance wants it of all.
  template <typename Number>
  std::span<Number> requests(std::span<Number> totals) const {
    return totals.subspan(tensors_ + replicas_ + metrics_, kRequests);
  }
  template <typename Number>
  std::span<Number> hash(std::span<Number> totals) const {
    return totals.last(kHashBytes);
  }

 private:
  std::size_t tensors_;
  std::size_t replicas_;
  std::size_t metrics_;
};

}  // namespace lockstep::train
