#pragma once

#include <cuda_runtime_api.h>

namespace lockstep::gpu {

/// Throws what a call of CUDA's came to, if it was no success: `Unavailable` for memory that is not
/// there, `Bug` for the rest, which is a mistake of ours or a broken device. Errors of kernels
/// appear at later calls: `where` says who noticed.
void check(cudaError_t result, const char* where);

/// The same for a kernel that was just launched.
void check_launch(const char* kernel);

}  // namespace lockstep::gpu
