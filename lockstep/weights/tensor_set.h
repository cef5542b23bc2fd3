#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/weights/element_type.h"

namespace lockstep::weights {

/// A tensor in memory of someone else: its elements in row-major order, in the byte order of this
/// machine. Files may keep them at any address: copy them, or ask before casting.
struct TensorView {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// A second name of a tensor that is kept under its first.
struct Tied {
  std::string name;
  std::string kept;
  bool operator==(const Tied&) const = default;
};

/// Memory that tensors refer to and that is in no file.
using Memory = std::shared_ptr<const std::vector<std::byte>>;

/// Tensors that are written, read or hashed together.
struct LOCKSTEP_API TensorSet {
  std::vector<TensorView> tensors;
  std::vector<Tied> ties;
  /// What may be second names, but may as well be notes that only read like them. They fill a name
  /// that is wanted and missing; no digest depends on them, and they are written as metadata only.
  std::vector<Tied> possible_ties;
  std::map<std::string, std::string> metadata;
  std::vector<Memory> memory;

  /// The tensor of that name, which may be a tied or possibly tied one; nothing if it is not there.
  /// The set has to be in order, as `in_order` leaves it and every reader returns it.
  const TensorView* find(std::string_view name) const noexcept;
};

/// How many bytes a tensor takes; nothing where an extent is negative or the product overflows.
LOCKSTEP_API std::optional<std::size_t> bytes_of(ElementType type,
                                                 std::span<const std::int64_t> shape) noexcept;

/// "f32 [64, 3, 7, 7]"
LOCKSTEP_API std::string describe(ElementType type, std::span<const std::int64_t> shape);

/// The same set with tensors and ties sorted by name, each tensor under the first of its names.
/// That is what files and digests hold, so neither depends on which name a program saw first.
///
/// Errors: `Options`, beginning with `where`, for a name that occurs twice or is not UTF-8, a tie
/// to a name that is not there, and a tensor whose bytes do not fit its shape.
LOCKSTEP_API TensorSet in_order(TensorSet set, std::string_view where);

}  // namespace lockstep::weights
