#pragma once

#include "lockstep/base/export.h"

namespace lockstep::nn {

class BlockPool;

/// While any lives, libtorch takes the memory of CPU tensors from one pool of the process that
/// keeps it (`BlockPool`), in all threads. Tensors may outlive it: each remembers where its memory
/// goes.
///
/// libtorch has one allocator for the CPU, so this is for whoever owns the process.
class LOCKSTEP_API KeptActivations {
 public:
  KeptActivations();
  ~KeptActivations();
  KeptActivations(const KeptActivations&) = delete;
  KeptActivations& operator=(const KeptActivations&) = delete;

  static BlockPool& pool() noexcept;
};

}  // namespace lockstep::nn
