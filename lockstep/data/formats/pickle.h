#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/formats/bytes.h"

namespace lockstep::data {

enum class PickleKind : std::uint8_t {
  None,
  Bool,
  Int,
  String,  ///< text in UTF-8 or bytes: Python 2 does not tell them apart, so nobody can
  List,
  Tuple,
  Dict,
  Array,   ///< numpy's, of unsigned bytes, in C order
  Global,  ///< the name of a type or function; only on the way to an array
};

std::string_view name_of(PickleKind kind) noexcept;

/// One value of a pickle. Which members count depends on the kind.
struct PickleValue {
  PickleKind kind = PickleKind::None;
  std::size_t offset = 0;    ///< in the file, for messages
  std::int64_t integer = 0;  ///< Bool, Int
  std::string_view bytes;    ///< String; the elements of an Array; the name of a Global
  std::vector<const PickleValue*> items;  ///< List, Tuple; of a Dict: key, value, key, value …
  std::vector<std::int64_t> shape;        ///< Array

  /// The value of a key of a Dict; nothing if it is not there.
  const PickleValue* find(std::string_view key) const noexcept;
};

/// A file that Python's `pickle` made of plain values and arrays of bytes, as CIFAR comes.
///
/// It is read, never run: of all names that a pickle can call, those that make an array of
/// unsigned bytes are understood, and all others refused. Protocols 0 to 5.
///
/// Values refer to the bytes they were read from, which have to outlive this object; only what
/// Python 3 stores as text is unpacked into memory of its own.
///
/// Errors: `Data`, which `where` begins, with the offset of the opcode.
class Pickle {
 public:
  Pickle(Bytes file, std::string_view where);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const noexcept { return *root_; }

 private:
  friend class PickleMachine;

  std::deque<PickleValue> values_;  // pointers to them stay right as it grows
  std::deque<std::string> unpacked_;
  const PickleValue* root_ = nullptr;
};

}  // namespace lockstep::data
