#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/train/state/weight_layout.h"

namespace lockstep::train {

/// The layout of the numbers behind the gradients of a leaf: which tensors changed, the losses,
/// sums of metrics, requests, and a hash of the integer buffers. They are summed in f32, and every
/// instance gets the sums.
///
/// Each replica has its own number for its loss, so that the sum contains all losses unchanged.
/// Each replica adds the bytes of its hash. The integer buffers agree if each sum is R times the
/// byte of the own hash.
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

  /// By parameter, then buffer: not zero if a replica has a gradient, or changed the buffer.
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
  /// Not zero if an instance makes this request.
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
