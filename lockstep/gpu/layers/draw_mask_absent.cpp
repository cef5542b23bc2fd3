#include "lockstep/gpu/absent.h"
#include "lockstep/gpu/layers/draw_mask.h"

namespace lockstep::gpu {

void draw_mask(const MaskCall& /*call*/, Stream /*stream*/) {
  refuse_without_cuda("dropout on a GPU");
}

}  // namespace lockstep::gpu
