#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/formats/pickle.h"
#include "lockstep/weights/row_major.h"
#include "lockstep/weights/tensor_set.h"

/// What the pickle of a PyTorch file says, once it has been read without being run: which objects
/// are tensors, what they consist of, and where their dict is.
namespace lockstep::weights {

/// A storage as a pickle refers to it.
struct StorageRef {
  std::string key;
  std::optional<ElementType> type;  ///< nothing: plain bytes, whose type the tensor knows
  std::int64_t elements = 0;
  std::int64_t view_offset = 0;  ///< in elements; PyTorch before 0.4 saved views of storages

  std::size_t element_bytes() const noexcept { return type ? size_of(*type) : 1; }
};

/// Whether a value is a reference to a storage, or to something else outside of the pickle.
bool is_storage(const data::PickleValue& value) noexcept;

/// Errors: `Data`, which `where` begins, also for types that lockstep does not know.
StorageRef storage_of(const data::PickleValue& value, std::string_view where);

/// The bytes of a storage, as many as it says.
using ReadStorage = std::function<data::Bytes(const StorageRef& storage)>;

/// The tensors of a state dict, or of a checkpoint that has one as `state_dict`,
/// `model_state_dict` or `model`. Tensors that are the same elements of the same storage are ties.
///
/// Those that are not row-major are copied, which may not take more than `most_copied` bytes.
///
/// Errors: `Data`, which `where` begins, with the name of the tensor and what was found instead.
TensorSet tensors_of(const data::PickleValue& root, const ReadStorage& read_storage,
                     std::size_t most_copied, std::string_view where);

/// The element type of a PyTorch storage class, "torch.FloatStorage", and back. Nothing where there
/// is none.
std::optional<ElementType> type_of_storage(std::string_view class_name) noexcept;
std::optional<std::string_view> storage_class_of(ElementType type) noexcept;

}  // namespace lockstep::weights
