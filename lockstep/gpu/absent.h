#pragma once

namespace lockstep::gpu {

/// What every function of a build without CUDA does, but for those that ask whether there is one.
[[noreturn]] void refuse_without_cuda(const char* what);

}  // namespace lockstep::gpu
