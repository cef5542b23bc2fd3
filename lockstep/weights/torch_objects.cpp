#include "lockstep/weights/torch_objects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::weights {
namespace {

using data::Bytes;
using data::name_of;
using data::PickleKind;
using data::PickleValue;
using data::printable;

// Whatever a pickle makes once it can use again for a byte or two. So that a file costs no more
// than in proportion to its size, all that is looked at again for each use is short. No limit is
// near to what PyTorch writes.
constexpr std::size_t kMaxTensorDimensions = 64;
constexpr std::size_t kMostKeyBytes = 64;
constexpr std::size_t kMostNameBytes = 4096;
constexpr std::size_t kMostMetadata = 32;
constexpr int kMaxTensorWrappers = 4;

struct StorageClass {
  std::string_view name;
  ElementType type;
};

constexpr std::array kStorageClasses{
    StorageClass{"torch.FloatStorage", ElementType::F32},
    StorageClass{"torch.DoubleStorage", ElementType::F64},
    StorageClass{"torch.HalfStorage", ElementType::F16},
    StorageClass{"torch.BFloat16Storage", ElementType::BF16},
    StorageClass{"torch.LongStorage", ElementType::I64},
    StorageClass{"torch.IntStorage", ElementType::I32},
    StorageClass{"torch.ShortStorage", ElementType::I16},
    StorageClass{"torch.CharStorage", ElementType::I8},
    StorageClass{"torch.ByteStorage", ElementType::U8},
    StorageClass{"torch.BoolStorage", ElementType::Bool},
};

// Types that came without a storage class of their own.
constexpr std::array kLateTypes{
    StorageClass{"torch.uint16", ElementType::U16},
    StorageClass{"torch.uint32", ElementType::U32},
    StorageClass{"torch.uint64", ElementType::U64},
};

bool is_untyped(std::string_view storage_class) {
  return storage_class == "torch.storage.UntypedStorage" || storage_class == "torch.UntypedStorage";
}

template <typename Rows>
std::optional<ElementType> find_type(const Rows& rows, std::string_view name) {
  for (const auto& row : rows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

/// What a value is, in words: "a list", "an object of 'argparse.Namespace'".
std::string describe(const PickleValue& value) {
  if (value.kind == PickleKind::Object) {
    return fmt::format("an object of '{}'", printable(value.bytes));
  }
  return std::string(name_of(value.kind));
}

Error refused(std::string_view where, std::string_view expected, std::string_view found,
              std::string hint = {}) {
  return {ErrorKind::Data, fmt::format("{}: expected {}, found {}", where, expected, found),
          std::move(hint)};
}

const PickleValue& item(const PickleValue& tuple, std::size_t index, PickleKind kind,
                        std::string_view where) {
  if (index >= tuple.items.size() || tuple.items[index]->kind != kind) {
    throw refused(where, fmt::format("{} as part {}", name_of(kind), index),
                  index < tuple.items.size() ? describe(*tuple.items[index])
                                             : fmt::format("{} parts", tuple.items.size()));
  }
  return *tuple.items[index];
}

std::vector<std::int64_t> integers(const PickleValue& tuple, std::string_view where) {
  if (tuple.items.size() > kMaxTensorDimensions) {
    throw refused(where, fmt::format("at most {} dimensions", kMaxTensorDimensions),
                  fmt::format("{}", tuple.items.size()));
  }
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < tuple.items.size(); ++i) {
    numbers.push_back(item(tuple, i, PickleKind::Int, where).integer);
  }
  return numbers;
}

/// A tensor as PyTorch rebuilds it.
struct TensorRef {
  StorageRef storage;
  ElementType type = ElementType::F32;
  Geometry geometry;

  auto identity() const { return std::tie(storage.key, storage.view_offset, type, geometry); }
  bool operator<(const TensorRef& other) const { return identity() < other.identity(); }
};

/// A call, without what only wraps it: a parameter is a tensor, and so is one with attributes.
struct Call {
  std::string_view name;
  const PickleValue* arguments = nullptr;
};

bool is_parameter(std::string_view class_name) {
  return class_name == "torch.nn.parameter.Parameter" ||
         class_name == "torch.autograd.variable.Variable";
}

/// The state that an object of PyTorch before 0.4 was given, if it has that many parts.
const PickleValue* old_state(const PickleValue& object, std::size_t parts) {
  if (object.items.size() < 2 || object.items[1]->kind != PickleKind::Tuple) return nullptr;
  return object.items[1]->items.size() == parts ? object.items[1] : nullptr;
}

/// The object that has the tensor of one that only wraps it; nothing where that is no wrapper.
const PickleValue* wrapped_by(const PickleValue& object, std::string_view where) {
  const auto& arguments = *object.items[0];
  if (object.bytes == "torch._utils._rebuild_parameter" ||
      object.bytes == "torch._utils._rebuild_parameter_with_state") {
    return &item(arguments, 0, PickleKind::Object, where);
  }
  if (!is_parameter(object.bytes)) return nullptr;
  // 0.2 and 0.3 call it with the tensor; before, that was the first part of its state.
  if (!arguments.items.empty()) return &item(arguments, 0, PickleKind::Object, where);
  const auto* const state = old_state(object, 5);
  return state != nullptr ? &item(*state, 0, PickleKind::Object, where) : nullptr;
}

Call call_of(const PickleValue& value, std::string_view where) {
  const auto* object = &value;
  for (int wrappers = 0; wrappers <= kMaxTensorWrappers; ++wrappers) {
    if (object->kind != PickleKind::Object || object->items.empty() ||
        object->bytes == data::kPersistent) {
      throw refused(where, "a tensor", describe(*object),
                    "of a checkpoint, the entry 'state_dict', 'model_state_dict' or 'model' is "
                    "read; save that alone");
    }
    if (const auto* const wrapped = wrapped_by(*object, where)) {
      object = wrapped;
      continue;
    }
    const auto& arguments = *object->items[0];
    if (object->bytes == "torch._tensor._rebuild_from_type_v2") {
      return {item(arguments, 0, PickleKind::Global, where).bytes,
              &item(arguments, 2, PickleKind::Tuple, where)};
    }
    // Once a tensor was an empty one whose state said the same as the arguments do now.
    const bool is_tensor = object->bytes.starts_with("torch.") && object->bytes.ends_with("Tensor");
    const auto* const state = old_state(*object, 4);
    if (state != nullptr && (is_tensor || is_parameter(object->bytes))) {
      return {"torch._utils._rebuild_tensor", state};
    }
    return {object->bytes, &arguments};
  }
  throw refused(where, fmt::format("a tensor in at most {} others", kMaxTensorWrappers), "more");
}

/// What kind of tensor a function makes that is not supported; nothing where it makes none.
std::string_view other_tensor(std::string_view function) {
  if (function == "torch._utils._rebuild_qtensor") return "a quantized tensor";
  if (function.starts_with("torch._utils._rebuild_sparse")) return "a sparse tensor";
  if (function == "torch._utils._rebuild_nested_tensor") return "a nested tensor";
  if (function.starts_with("torch._utils._rebuild_meta_tensor")) return "a tensor without elements";
  return {};
}

/// A view that is negated or conjugated only when it is read.
void check_plain(const Call& call, std::size_t metadata_at, std::string_view where) {
  if (call.arguments->items.size() <= metadata_at) return;
  const auto& metadata = *call.arguments->items[metadata_at];
  if (metadata.items.size() > 2 * kMostMetadata) {
    throw refused(where, fmt::format("metadata of at most {} entries", kMostMetadata),
                  fmt::format("{}", metadata.items.size() / 2));
  }
  for (const auto* const key : {"neg", "conj"}) {
    const auto* const bit = metadata.find(key);
    if (bit != nullptr && bit->integer != 0) {
      throw refused(where, "a plain tensor", fmt::format("a view with its {} bit set", key),
                    "save it as `tensor.resolve_neg().resolve_conj()`");
    }
  }
}

TensorRef tensor_of(const PickleValue& value, std::string_view where) {
  const auto call = call_of(value, where);
  const bool is_v3 = call.name == "torch._utils._rebuild_tensor_v3";
  if (call.name != "torch._utils._rebuild_tensor" &&
      call.name != "torch._utils._rebuild_tensor_v2" && !is_v3) {
    const auto other = other_tensor(call.name);
    throw refused(where, "a dense tensor",
                  other.empty() ? fmt::format("an object of '{}'", printable(call.name)) : other);
  }
  const auto& arguments = *call.arguments;
  TensorRef tensor;
  tensor.storage = storage_of(item(arguments, 0, PickleKind::Object, where), where);
  tensor.geometry.offset = item(arguments, 1, PickleKind::Int, where).integer;
  tensor.geometry.shape = integers(item(arguments, 2, PickleKind::Tuple, where), where);
  tensor.geometry.strides = integers(item(arguments, 3, PickleKind::Tuple, where), where);
  check_plain(call, is_v3 ? 7 : 6, where);
  if (is_v3) {
    const auto name = item(arguments, 6, PickleKind::Global, where).bytes;
    const auto type = find_type(kLateTypes, name);
    if (!type)
      throw refused(where, "a type that lockstep knows", fmt::format("'{}'", printable(name)));
    tensor.type = *type;
  } else if (tensor.storage.type) {
    tensor.type = *tensor.storage.type;
  } else {
    throw refused(where, "a storage with a type", "one without");
  }
  return tensor;
}

/// Brings the elements of each tensor into row-major order, and finds those that are the same.
class Collector {
 public:
  Collector(const ReadStorage& read_storage, std::size_t most_copied)
      : read_storage_(read_storage), most_copied_(most_copied) {}

  void add(const std::string& name, TensorRef tensor, std::string_view where) {
    if (const auto first = seen_.find(tensor); first != seen_.end()) {
      add_tie(name, first->second, where);
      return;
    }
    const auto bytes = elements_of(tensor, where);
    set_.tensors.push_back({name, tensor.type, tensor.geometry.shape, bytes});
    // Without elements there is nothing that two names could share.
    if (!bytes.empty()) seen_.emplace(std::move(tensor), name);
  }

  TensorSet take() { return std::move(set_); }

 private:
  void add_tie(const std::string& name, const std::string& kept, std::string_view where) {
    // Any number of short names may be tied to one long one.
    if (kept.size() > most_copied_ - tied_bytes_) {
      throw refused(where, "tied names in proportion to the file",
                    fmt::format("more than {} bytes of them", most_copied_));
    }
    tied_bytes_ += kept.size();
    set_.ties.push_back({name, kept});
  }

  std::span<const std::byte> elements_of(const TensorRef& tensor, std::string_view where) {
    const auto storage = std::as_bytes(read_storage_(tensor.storage));
    const auto element_bytes = size_of(tensor.type);
    auto geometry = tensor.geometry;
    const auto elements = static_cast<std::int64_t>(storage.size() / element_bytes);
    const bool is_inside = fits(geometry, elements) && tensor.storage.view_offset >= 0 &&
                           tensor.storage.view_offset <= elements - geometry.offset;
    geometry.offset += is_inside ? tensor.storage.view_offset : 0;
    const auto bytes = bytes_of(tensor.type, geometry.shape);
    if (!is_inside || !fits(geometry, elements) || !bytes) {
      throw refused(
          where, fmt::format("elements of a storage that has {}", elements),
          fmt::format("shape [{}], strides [{}] from element {}", fmt::join(geometry.shape, ", "),
                      fmt::join(geometry.strides, ", "), geometry.offset));
    }
    if (bytes == 0) return {};
    if (is_row_major(geometry)) {
      return storage.subspan(static_cast<std::size_t>(geometry.offset) * element_bytes, *bytes);
    }
    return copied(storage, *bytes, element_bytes, geometry, where);
  }

  std::span<const std::byte> copied(std::span<const std::byte> storage, std::size_t bytes,
                                    std::size_t element_bytes, const Geometry& geometry,
                                    std::string_view where) {
    // An expanded tensor repeats its elements: a few bytes could ask for all memory.
    if (bytes > storage.size() || bytes > most_copied_ - copied_bytes_) {
      throw refused(where,
                    fmt::format("at most {} bytes in another order than row-major",
                                std::min(storage.size(), most_copied_ - copied_bytes_)),
                    fmt::format("{}, with strides [{}]", bytes, fmt::join(geometry.strides, ", ")),
                    "call contiguous() on it before it is saved");
    }
    copied_bytes_ += bytes;
    set_.memory.push_back(std::make_shared<const std::vector<std::byte>>(
        to_row_major(storage, element_bytes, geometry)));
    return *set_.memory.back();
  }

  const ReadStorage& read_storage_;
  std::size_t most_copied_;
  std::size_t copied_bytes_ = 0;
  std::size_t tied_bytes_ = 0;
  std::map<TensorRef, std::string> seen_;
  TensorSet set_;
};

/// The dict of tensors: the root itself, or what a checkpoint has under one of the usual names.
const PickleValue& state_dict_of(const PickleValue& root, std::string_view where) {
  if (root.kind != PickleKind::Dict) {
    throw refused(
        where, "a dict of tensors", describe(root),
        root.kind == PickleKind::Object ? "save model.state_dict(), not the model itself" : "");
  }
  for (const auto* const key : {"state_dict", "model_state_dict", "model"}) {
    const auto* const inner = root.find(key);
    if (inner != nullptr && inner->kind == PickleKind::Dict) return *inner;
  }
  return root;
}

void check_name(const PickleValue& key, std::string_view where) {
  if (key.kind == PickleKind::String && key.bytes.size() > kMostNameBytes) {
    throw refused(where, fmt::format("names of at most {} bytes", kMostNameBytes),
                  fmt::format("{}: '{}'…", key.bytes.size(), printable(key.bytes)));
  }
  if (key.kind != PickleKind::String || !is_utf8(key.bytes)) {
    throw refused(
        where, "names in UTF-8 as keys of the state dict",
        key.kind == PickleKind::String ? fmt::format("'{}'", printable(key.bytes)) : describe(key));
  }
}

/// The last of a name wins, as in Python.
std::map<std::string, const PickleValue*> named_values(const PickleValue& dict,
                                                       std::string_view where) {
  std::map<std::string, const PickleValue*> named;
  std::unordered_set<const PickleValue*> seen;  // so that a name is looked at once for all uses
  for (auto i = dict.items.size() / 2; i-- > 0;) {
    const auto* const key = dict.items[2 * i];
    if (!seen.insert(key).second) continue;
    check_name(*key, where);
    named.try_emplace(std::string(key->bytes), dict.items[2 * i + 1]);
  }
  return named;
}

}  // namespace

std::optional<ElementType> type_of_storage(std::string_view class_name) noexcept {
  return find_type(kStorageClasses, class_name);
}

std::optional<std::string_view> storage_class_of(ElementType type) noexcept {
  for (const auto& known : kStorageClasses) {
    if (known.type == type) return known.name;
  }
  return std::nullopt;
}

bool is_storage(const PickleValue& value) noexcept {
  return value.kind == PickleKind::Object && value.bytes == data::kPersistent;
}

StorageRef storage_of(const PickleValue& value, std::string_view where) {
  if (!is_storage(value) || value.items.empty() || value.items[0]->kind != PickleKind::Tuple) {
    throw refused(where, "a storage", describe(value));
  }
  const auto& id = *value.items[0];
  if (const auto kind = item(id, 0, PickleKind::String, where).bytes; kind != "storage") {
    throw refused(where, "a storage", fmt::format("'{}'", printable(kind)));
  }
  const auto class_name = item(id, 1, PickleKind::Global, where).bytes;
  const auto key = item(id, 2, PickleKind::String, where).bytes;
  if (key.size() > kMostKeyBytes) {
    throw refused(where, fmt::format("a storage with a key of at most {} bytes", kMostKeyBytes),
                  fmt::format("{}", key.size()));
  }
  StorageRef storage{.key = std::string(key),
                     .type = type_of_storage(class_name),
                     .elements = item(id, 4, PickleKind::Int, where).integer};
  if (!storage.type && !is_untyped(class_name)) {
    throw refused(where, "elements of a type that lockstep knows",
                  fmt::format("a '{}'", printable(class_name)));
  }
  if (storage.elements < 0) {
    throw refused(where, "a storage", fmt::format("one of {} elements", storage.elements));
  }
  if (id.items.size() > 5 && id.items[5]->kind == PickleKind::Tuple) {
    storage.view_offset = item(*id.items[5], 1, PickleKind::Int, where).integer;
  }
  return storage;
}

TensorSet tensors_of(const PickleValue& root, const ReadStorage& read_storage,
                     std::size_t most_copied, std::string_view where) {
  const auto named = named_values(state_dict_of(root, where), where);
  Collector collector(read_storage, most_copied);
  for (const auto& [name, value] : named) {
    const auto place = fmt::format("{}: '{}'", where, printable(name));
    collector.add(name, tensor_of(*value, place), place);
  }
  return in_order(collector.take(), where);
}

}  // namespace lockstep::weights
