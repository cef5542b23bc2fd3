#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/gpu/stream.h"

namespace lockstep::gpu {

/// GPUs of several instances, one each, that exchange f32 by themselves: NVIDIA's NCCL, which is
/// looked for when it is needed, so that nobody needs it to build or start.
///
/// Calls go to a stream, may be recorded, and are the same on every instance, in the same order.
/// Whoever waits for an instance that is gone waits for ever: the launcher, which ends all of them,
/// is who notices.
///
/// Errors: `Unavailable` where there is no NCCL; `PeerLost` where it says that another instance has
/// failed; `Bug` for the rest.
class NcclGroup {
 public:
  /// What one instance makes, and all need to meet.
  using Id = std::array<std::byte, 128>;
  static Id make_id();
  static bool is_there() noexcept;

  /// Everybody makes it, for the current GPU, which must be nobody else's; returns when all have.
  NcclGroup(const Id& id, int rank, int size);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Adds up over all instances, in place, in an order of NCCL's own.
  void all_reduce(float* values, std::int64_t count, Stream stream) const;
  /// Block r of `blocks` is to come from rank r, where it stands already.
  void all_gather(float* blocks, std::int64_t count_of_each, Stream stream) const;

  /// What is sent and received by the calls within `exchange` is under way at the same time.
  /// Messages between two instances arrive in order.
  void exchange(const std::function<void()>& calls) const;
  void send(const float* values, std::int64_t count, int to, Stream stream) const;
  void receive(float* values, std::int64_t count, int from, Stream stream) const;

 private:
  int rank_;
  int size_;
  void* group_ = nullptr;  ///< ncclComm_t
};

}  // namespace lockstep::gpu
