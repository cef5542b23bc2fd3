#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep::plan {

/// What one block of a model takes, for one micro-batch.
struct BlockProfile {
  std::string name;
  /// The parameter or buffer that it shares with a block before it: then no stage begins between
  /// them. Empty: none.
  std::string shares{};
  /// The first block that it shares something with; its own number where there is none.
  int shares_with = 0;
  double forward_s = 0;  ///< 0 where nothing was timed
  double backward_s = 0;
  std::int64_t parameter_bytes = 0;  ///< that are learned, and not an earlier block's
  std::int64_t buffer_bytes = 0;     ///< of which each replica has its own
  std::int64_t output_bytes = 0;     ///< handed on to the next block
  std::int64_t kept_bytes = 0;       ///< kept from forward to backward, its output included
  std::int64_t forward_bytes = 0;    ///< beyond what is kept, at the most, while it goes forward
  std::int64_t backward_bytes = 0;   ///< the same, going backward, without gradients of parameters

  bool operator==(const BlockProfile&) const = default;
};

/// A model as a sequence of blocks, measured.
struct ModelProfile {
  std::vector<BlockProfile> blocks;
  bool is_timed = false;

  bool operator==(const ModelProfile&) const = default;
};

/// Whether a stage may begin with this block: nothing before it shares anything with it or with
/// what follows.
LOCKSTEP_API bool may_begin_stage(const ModelProfile& profile, int block);

}  // namespace lockstep::plan
