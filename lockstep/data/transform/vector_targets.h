#pragma once

// The vector units that the kernels of this folder are compiled for. To be included before Highway.
//
// Vectors without a fixed size (SVE, RVV) have no place in a struct, and no blocks to combine; Arm
// processors that have them also have vectors of 16 bytes.
//
// 512 bits make the processor slow down for a while: a picture that is decoded next took longer by
// more than was saved (docs/internals/performance.md has the figures).
//
// Highway gives better units lower bits, and those below AVX2's belong to x86 alone: so these are
// all units of 512 bits, also ones that newer releases add.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | (HWY_AVX2 - 1))
