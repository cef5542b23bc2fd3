#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lockstep/base/export.h"
#include "lockstep/weights/tensor_set.h"

namespace lockstep::weights {

/// The weights digest: 16 hexadecimal digits that are equal where names, types, shapes and bytes of
/// all tensors are.
///
/// It is XXH3 of 64 bits over the tensors by ascending name. For each of them, with all numbers as
/// little-endian u64:
///
///     length of the name, the name, length of the type's name, that name ("f32"),
///     number of extents, each extent, the elements in row-major order
///
/// A tensor with several names counts once, under the first of them.
class LOCKSTEP_API WeightsDigest {
 public:
  WeightsDigest();
  ~WeightsDigest();
  WeightsDigest(const WeightsDigest&) = delete;
  WeightsDigest& operator=(const WeightsDigest&) = delete;

  /// Throws `Bug` where the name does not come after the one before.
  void add(const TensorView& tensor);

  std::string hex() const;

 private:
  struct LOCKSTEP_INTERNAL State;

  void add_number(std::uint64_t number);
  void add_text(std::string_view text);

  std::unique_ptr<State> state_;
  std::string last_name_;
  bool is_empty_ = true;
};

/// The digest of a set, in whatever order its tensors and ties are.
LOCKSTEP_API std::string digest_of(const TensorSet& set);

/// The digest of each tensor alone, by its first name: which of them differ, where sets do.
LOCKSTEP_API std::map<std::string, std::string> tensor_digests(const TensorSet& set);

}  // namespace lockstep::weights
