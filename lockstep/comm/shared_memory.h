#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/base/export.h"

namespace lockstep::comm {

/// A piece of memory that several instances see. A handle: copies refer to the same piece, which
/// stays mapped as long as one of them, or the communicator that gave it, lives.
class LOCKSTEP_API SharedMemory {
 public:
  SharedMemory() = default;
  /// Maps `bytes` at `offset` of a file, with every page present.
  /// Errors: `Unavailable` where they cannot be mapped.
  SharedMemory(int fd, std::size_t offset, std::size_t bytes);

  std::byte* data() const noexcept { return data_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t bytes_ = 0;
};

/// A piece of memory that may outlive the instances that use it.
struct KeptPiece {
  SharedMemory memory;
  bool is_new = true;  ///< zeroed; else it is as instances that were here before have left it
};

}  // namespace lockstep::comm
