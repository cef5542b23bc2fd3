#pragma once

namespace lockstep::nn {

/// Lets whatever the calling thread computes from here on use `threads` threads: libtorch's own
/// loops, oneDNN and the BLAS. How many they are is a part of what the bits of a result depend on.
///
/// OpenMP's count belongs to the calling thread, OpenBLAS's to the process: threads of one process
/// all ask for the same count.
void use_compute_threads(int threads);

}  // namespace lockstep::nn
