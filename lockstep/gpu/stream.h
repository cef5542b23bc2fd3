#pragma once

struct CUstream_st;

namespace lockstep::gpu {

/// Work that a GPU does in order: a handle of CUDA's, named so that headers need none of CUDA's
/// own. None is CUDA's default stream.
using Stream = CUstream_st*;

}  // namespace lockstep::gpu
