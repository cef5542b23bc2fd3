#pragma once

#include <cstddef>

#include "lockstep/base/export.h"
#include "lockstep/optimizer/optimizer.h"

namespace lockstep::optimizer {

// What kernels are handed: computed once for a slice, in double, by code that is compiled for no
// vector unit in particular, and rounded to f32 where libtorch rounds.

/// A slice, bare. Rows that are written may be those that are read, but never overlap otherwise.
struct Rows {
  const float* gradient;
  const float* weights;
  float* next_weights;
  const float* first;  ///< state
  const float* second;
  float* next_first;
  float* next_second;
  std::size_t count;
};

struct SgdCoefficients {
  float gradient_scale;
  float weight_decay;
  float momentum;
  float lr;
};

/// Of Adam, AdamW and LAMB. A bias correction is 1 - beta^count.
struct AdamCoefficients {
  float gradient_scale;
  float beta1;
  float rest1;  ///< 1 - beta1
  float beta2;
  float rest2;
  float root_bias2;  ///< square root of the second bias correction
  float epsilon;
  float weight_decay;
  float shrink;         ///< AdamW: what is left of a weight
  float inverse_bias1;  ///< LAMB: one over the first bias correction
  float step_size;      ///< Adam, AdamW: lr over the first bias correction; LAMB: lr · trust
};

Rows rows_of(const Slice& slice);
LOCKSTEP_PRIVATE_API SgdCoefficients sgd_coefficients(const SgdOptions& options,
                                                      const UpdateFacts& facts,
                                                      float gradient_scale);
LOCKSTEP_PRIVATE_API AdamCoefficients adam_coefficients(const AdamOptions& options,
                                                        const UpdateFacts& facts,
                                                        float gradient_scale);
AdamCoefficients lamb_coefficients(const AdamOptions& options, const UpdateFacts& facts,
                                   float gradient_scale, double trust);

}  // namespace lockstep::optimizer
