#include "lockstep/plan/model_profile.h"

#include <algorithm>

namespace lockstep::plan {

bool may_begin_stage(const ModelProfile& profile, int block) {
  const auto& blocks = profile.blocks;
  if (block < 0 || static_cast<std::size_t>(block) >= blocks.size()) return false;
  return std::all_of(blocks.begin() + block, blocks.end(),
                     [block](const BlockProfile& later) { return later.shares_with >= block; });
}

}  // namespace lockstep::plan
