#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/weights/tensor_set.h"

namespace lockstep::weights {

/// A parameter or buffer of a model that wants to be filled.
struct WantedTensor {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> shape;
};

/// What a model has: each tensor under one name, and the other names of those that have several.
struct WantedTensors {
  std::vector<WantedTensor> tensors;
  std::vector<Tied> ties;
};

/// Finds the tensor of the file for each tensor of the model, in the order of the model's.
///
/// - One of several names suffices; where the file has more of them, their values have to be equal.
/// - A possible tie is one more name, where the file has none that is certain; it is never
///   unexpected.
/// - Where every name of the file begins with "module.", which DataParallel and
///   DistributedDataParallel put there, or "_orig_mod.", which torch.compile does, or with both,
///   and the model has none of them, that is left out.
/// - A counter `num_batches_tracked` may be missing, as PyTorch before 0.4 had none: its place in
///   the result is null.
///
/// Errors: `Data`, one for all: which tensors are missing, not expected, of another shape or type,
/// with what was wanted and found.
LOCKSTEP_PRIVATE_API std::vector<const TensorView*> match(const WantedTensors& model,
                                                          const TensorSet& file,
                                                          std::string_view where);

}  // namespace lockstep::weights
