#pragma once

// Arithmetic that kernels and tests on the host share, so that what is tested is what runs.
#ifdef __CUDACC__
#define LOCKSTEP_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define LOCKSTEP_HOST_DEVICE inline
#endif

#ifdef __CUDA_ARCH__
#define LOCKSTEP_UNROLL _Pragma("unroll")
#define LOCKSTEP_NO_UNROLL _Pragma("unroll 1")
#else
#define LOCKSTEP_UNROLL
#define LOCKSTEP_NO_UNROLL
#endif
