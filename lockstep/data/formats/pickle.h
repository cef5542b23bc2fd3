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
  Float,
  String,  ///< text in UTF-8 or bytes: Python 2 does not tell them apart, so nobody can
  List,
  Tuple,
  Dict,
  Array,   ///< numpy's, of unsigned bytes, in C order
  Global,  ///< the name of a type or function
  Object,  ///< what a call would have made, had it been called
};

std::string_view name_of(PickleKind kind) noexcept;

/// One value of a pickle. Which members count depends on the kind.
struct PickleValue {
  PickleKind kind = PickleKind::None;
  std::size_t offset = 0;    ///< in the file, for messages
  std::int64_t integer = 0;  ///< Bool, Int
  double real = 0;           ///< Float
  /// String; the elements of an Array; the name of a Global; the name that made an Object
  std::string_view bytes;
  /// List, Tuple; of a Dict: key, value, key, value …; of an Object: what it was made of, if known,
  /// and then the state that it was given, if any
  std::vector<const PickleValue*> items;
  std::vector<std::int64_t> shape;  ///< Array

  /// The value of a key of a Dict; nothing if it is not there.
  const PickleValue* find(std::string_view key) const noexcept;
};

/// What becomes of the names that a pickle calls. Nothing is ever run.
enum class PickleCalls : std::uint8_t {
  /// Those that make an array of unsigned bytes are understood, and all others refused.
  Arrays,
  /// Each becomes an Object that says what would have been called, and with what; OrderedDict
  /// becomes a Dict. Whoever reads the values decides which of them mean something.
  Symbols,
};

struct PickleOptions {
  PickleCalls calls = PickleCalls::Arrays;
  /// Where in the file the pickle begins.
  std::size_t begin = 0;
  /// Whether something else may follow it.
  enum class End : std::uint8_t { OfFile, Anywhere } end = End::OfFile;
};

/// The name of an Object that a program refers to from outside the pickle, by its "persistent id".
inline constexpr std::string_view kPersistent = "a persistent id";

/// A file that Python's `pickle` made of plain values, as CIFAR comes and as PyTorch describes its
/// tensors. It is read, never run. Protocols 0 to 5.
///
/// Values refer to the bytes they were read from, which have to outlive this object; only what
/// Python 3 stores as text is unpacked into memory of its own.
///
/// Errors: `Data`, which `where` begins, with the offset of the opcode in the file.
class Pickle {
 public:
  Pickle(Bytes file, std::string_view where, const PickleOptions& options = {});
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const noexcept { return *root_; }
  /// Every value that the pickle made, in that order.
  const std::deque<PickleValue>& values() const noexcept { return values_; }
  /// Where the pickle ends in the file.
  std::size_t end() const noexcept { return end_; }

 private:
  friend class PickleMachine;

  std::deque<PickleValue> values_;  // pointers to them stay right as it grows
  std::deque<std::string> unpacked_;
  const PickleValue* root_ = nullptr;
  std::size_t end_ = 0;
};

}  // namespace lockstep::data
