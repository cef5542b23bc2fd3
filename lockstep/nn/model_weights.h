#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/nn/model.h"
#include "lockstep/weights/tensor_set.h"

namespace lockstep::nn {

/// Writes all parameters and buffers: `.safetensors`, or `.pt` and `.pth` for Python's
/// `torch.load`. The file has its name only when it is whole.
///
/// Errors: `Options` for another extension, `Io`.
LOCKSTEP_API void save_weights(const Model& model, const std::filesystem::path& path);

/// Fills all parameters and buffers from a file that lockstep or Python wrote, of either format.
///
/// Errors: `Io`; `Data` for a damaged file, and for one that does not fit, with all that is
/// missing, unexpected, or of another shape or type. Then the model is as it was.
LOCKSTEP_API void load_weights(Model& model, const std::filesystem::path& path);

/// Fills them from tensors in memory, which have to be in order (`weights::in_order`). `where`
/// begins the message of an error, which is `Data` as above.
LOCKSTEP_API void load_weights(Model& model, const weights::TensorSet& set, std::string_view where);

/// 16 hexadecimal digits that are equal where all weights are, by name, type, shape and bit
/// (`weights/digest.h`): that of a file the model was saved to.
LOCKSTEP_API std::string digest_of(const Model& model);

/// The same for each parameter and buffer by itself, sorted by name.
LOCKSTEP_API std::vector<std::pair<std::string, std::string>> digests_of(const Model& model);

}  // namespace lockstep::nn
