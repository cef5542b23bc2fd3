#pragma once

namespace lockstep::gpu {

// CUDA's own division and root call a function for rare numbers, and around a call all that a
// thread keeps in registers has to be saved. These are as exact but for the last bit, for numbers
// that are neither near zero nor near infinity: counts, and variances with their epsilon.

__device__ inline float reciprocal(float number) {
  const float about = __fdividef(1.0F, number);
  return fmaf(about, fmaf(-number, about, 1.0F), about);
}

__device__ inline float reciprocal_root(float number) {
  const float about = rsqrtf(number);
  return fmaf(about * 0.5F, fmaf(-number * about, about, 1.0F), about);
}

}  // namespace lockstep::gpu
