#include "lockstep/data/formats/pickle_arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/data/formats/pickle_text.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMaxArrayDimensions = 8;

// What this reader calls the names it knows. They have moved between versions of numpy.
constexpr std::string_view kReconstruct = "_reconstruct";
constexpr std::string_view kFromBuffer = "_frombuffer";
constexpr std::string_view kArrayType = "ndarray";
constexpr std::string_view kElementType = "dtype";
constexpr std::string_view kEncode = "encode";
/// A dtype that was made, as opposed to the name of the type.
constexpr std::string_view kUint8Type = "dtype('uint8')";

struct KnownGlobal {
  std::string_view module;
  std::string_view name;
};

constexpr std::array kKnownGlobals{
    KnownGlobal{"numpy.core.multiarray", kReconstruct},
    KnownGlobal{"numpy._core.multiarray", kReconstruct},
    KnownGlobal{"numpy.core.numeric", kFromBuffer},
    KnownGlobal{"numpy._core.numeric", kFromBuffer},
    KnownGlobal{"numpy", kArrayType},
    KnownGlobal{"numpy", kElementType},
    KnownGlobal{"_codecs", kEncode},
};

bool is_global(const PickleValue& value, std::string_view name) {
  return value.kind == PickleKind::Global && value.bytes == name;
}

}  // namespace

void PickleArrays::push_global(std::string_view module, std::string_view name) {
  for (const auto& known : kKnownGlobals) {
    if (known.module == module && known.name == name) {
      push(PickleKind::Global).bytes = known.name;
      return;
    }
  }
  throw refused("plain values and arrays of unsigned bytes",
                fmt::format("a call of '{}.{}'", printable(module), printable(name)),
                "this is not a file of the dataset; a pickle from elsewhere can run any program");
}

void PickleArrays::reduce(const PickleValue& callee, const PickleValue& arguments) {
  if (is_global(callee, kEncode)) {
    reduce_encode(arguments);
  } else if (is_global(callee, kElementType)) {
    reduce_dtype(arguments);
  } else if (is_global(callee, kReconstruct)) {
    reduce_reconstruct(arguments);
  } else if (is_global(callee, kFromBuffer)) {
    reduce_from_buffer(arguments);
  } else {
    throw refused("a function to call", name_of(callee.kind));
  }
}

void PickleArrays::reduce_encode(const PickleValue& arguments) {
  const auto& text = argument(arguments, 0, PickleKind::String);
  const auto& encoding = argument(arguments, 1, PickleKind::String);
  if (encoding.bytes != "latin1" && encoding.bytes != "latin-1") {
    throw refused("bytes kept as Latin 1", fmt::format("'{}'", printable(encoding.bytes)));
  }
  push_unpacked(latin1_of_utf8(text.bytes), "bytes kept as Latin 1");
}

void PickleArrays::reduce_dtype(const PickleValue& arguments) {
  const auto name = argument(arguments, 0, PickleKind::String).bytes;
  constexpr std::array<std::string_view, 4> kNames{"u1", "|u1", "B", "uint8"};
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    throw refused("an array of unsigned bytes ('u1')",
                  fmt::format("elements of type '{}'", printable(name)));
  }
  push(PickleKind::Global).bytes = kUint8Type;
}

void PickleArrays::reduce_reconstruct(const PickleValue& arguments) {
  if (!is_global(argument(arguments, 0, PickleKind::Global), kArrayType)) {
    throw refused("an array", "another type");
  }
  auto& array = push(PickleKind::Array);
  array.shape = {0};
}

void PickleArrays::reduce_from_buffer(const PickleValue& arguments) {
  const auto& elements = argument(arguments, 0, PickleKind::String);
  const auto& type = argument(arguments, 1, PickleKind::Global);
  const auto& shape = argument(arguments, 2, PickleKind::Tuple);
  const auto& order = argument(arguments, 3, PickleKind::String);
  fill_array(push(PickleKind::Array), shape, type, elements, order.bytes == "F");
}

void PickleArrays::build(PickleValue& target, const PickleValue& state) {
  if (state.kind != PickleKind::Tuple) throw refused("a state to set", name_of(state.kind));
  // A dtype's state tells its byte order and fields; an unsigned byte has neither.
  if (is_global(target, kUint8Type)) return;
  if (target.kind != PickleKind::Array) throw refused("an array", name_of(target.kind));
  const auto& shape = argument(state, 1, PickleKind::Tuple);
  const auto& type = argument(state, 2, PickleKind::Global);
  const auto& elements = argument(state, 4, PickleKind::String);
  fill_array(target, shape, type, elements, state.items[3]->integer != 0);
}

void PickleArrays::fill_array(PickleValue& array, const PickleValue& shape, const PickleValue& type,
                              const PickleValue& elements, bool is_fortran) {
  if (!is_global(type, kUint8Type)) throw refused("a dtype of unsigned bytes", type.bytes);
  if (shape.items.size() > kMaxArrayDimensions) {
    throw refused(fmt::format("at most {} dimensions", kMaxArrayDimensions),
                  fmt::format("{}", shape.items.size()));
  }
  const auto size = static_cast<std::int64_t>(elements.bytes.size());
  std::vector<std::int64_t> extents;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < shape.items.size(); ++i) {
    const auto extent = argument(shape, i, PickleKind::Int).integer;
    // Beyond the elements that there are it cannot be right, and the product could overflow.
    if (extent < 0 || (extent > 0 && count > size / extent)) count = -1;
    if (count >= 0) count *= extent;
    extents.push_back(extent);
  }
  if (count != size) {
    throw refused(
        fmt::format("as many bytes as the shape [{}] has elements", fmt::join(extents, ", ")),
        fmt::format("{}", size));
  }
  array.bytes = is_fortran ? to_c_order(elements.bytes, extents) : elements.bytes;
  array.shape = std::move(extents);
}

/// Columns one after the other become rows one after the other.
std::string_view PickleArrays::to_c_order(std::string_view elements,
                                          const std::vector<std::int64_t>& shape) {
  if (shape.size() < 2) return elements;
  if (shape.size() > 2) {
    throw refused("an array in C order",
                  fmt::format("Fortran order in {} dimensions", shape.size()));
  }
  const auto rows = static_cast<std::size_t>(shape[0]);
  const auto columns = static_cast<std::size_t>(shape[1]);
  std::string transposed(elements.size(), '\0');
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      transposed[row * columns + column] = elements[column * rows + row];
    }
  }
  return keep(std::move(transposed));
}

}  // namespace lockstep::data
