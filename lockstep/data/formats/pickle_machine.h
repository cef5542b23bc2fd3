#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/data/formats/pickle.h"

namespace lockstep::data {

/// A pickle is a program for a stack machine; this runs the harmless part of its language.
///
/// Every opcode costs memory that is bounded by a constant, except for strings that have to be
/// unpacked, which may not add up to more than a small multiple of the file: so a file of n bytes
/// costs O(n), whatever is in it.
class PickleMachine {
 public:
  PickleMachine(Bytes file, std::string_view where, Pickle& pickle);

  const PickleValue* run();

 private:
  // Each of these handles the opcodes of one kind, and returns false where it is another.
  bool push_scalar(std::uint8_t opcode);
  bool push_string(std::uint8_t opcode);
  bool build_list(std::uint8_t opcode);
  bool build_tuple(std::uint8_t opcode);
  bool build_dict(std::uint8_t opcode);
  bool move_on_stack(std::uint8_t opcode);
  bool use_memo(std::uint8_t opcode);
  bool make_object(std::uint8_t opcode);

  void push_global(std::string_view module, std::string_view name);
  void reduce();
  void build();
  void reduce_encode(const PickleValue& arguments);
  void reduce_dtype(const PickleValue& arguments);
  void reduce_reconstruct(const PickleValue& arguments);
  void reduce_from_buffer(const PickleValue& arguments);
  void fill_array(PickleValue& array, const PickleValue& shape, const PickleValue& type,
                  const PickleValue& elements, bool is_fortran);
  std::string_view to_c_order(std::string_view elements, const std::vector<std::int64_t>& shape);

  PickleValue& push(PickleKind kind);
  PickleValue& push_integer(PickleKind kind, std::int64_t value);
  void push_unpacked(std::optional<std::string> text, std::string_view expected);
  /// Gives an unpacked string a place that stays.
  std::string_view keep(std::string text);
  PickleValue& pop();
  PickleValue& top();
  /// The container that stands at the top.
  PickleValue& top_of_kind(PickleKind kind);
  std::vector<const PickleValue*> pop_to_mark();
  void remember(std::uint64_t key);
  void recall(std::uint64_t key);

  Bytes take(std::uint64_t count);
  std::uint64_t take_number(std::size_t bytes);
  std::int64_t take_long(std::uint64_t bytes);
  std::string_view take_line();
  std::int64_t take_decimal();

  const PickleValue& argument(const PickleValue& tuple, std::size_t index, PickleKind kind) const;
  Error refused(std::string_view expected, std::string_view found) const;

  Bytes file_;
  std::string where_;
  Pickle& pickle_;
  std::size_t position_ = 0;
  std::size_t opcode_at_ = 0;
  std::size_t unpacked_bytes_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  ///< how high the stack was
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

}  // namespace lockstep::data
