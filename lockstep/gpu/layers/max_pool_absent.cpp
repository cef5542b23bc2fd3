#include "lockstep/gpu/absent.h"
#include "lockstep/gpu/layers/max_pool.h"

namespace lockstep::gpu {

void max_pool_forward(const MaxPoolForward& /*call*/, Stream /*stream*/) {
  refuse_without_cuda("max pool");
}

void max_pool_backward(const MaxPoolBackward& /*call*/, Stream /*stream*/) {
  refuse_without_cuda("max pool");
}

}  // namespace lockstep::gpu
