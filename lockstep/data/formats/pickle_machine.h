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

/// A pickle is a program for a stack machine; this runs the harmless part of its language. What
/// becomes of names and calls is up to the class derived from it.
///
/// Every opcode costs memory that is bounded by a constant, except for what has to be unpacked,
/// which may not add up to more than a small multiple of the file: so a file of n bytes costs O(n),
/// whatever is in it.
class PickleMachine {
 public:
  PickleMachine(Bytes file, std::string_view where, const PickleOptions& options, Pickle& pickle);
  virtual ~PickleMachine() = default;
  PickleMachine(const PickleMachine&) = delete;
  PickleMachine& operator=(const PickleMachine&) = delete;

  const PickleValue* run();

 protected:
  virtual void push_global(std::string_view module, std::string_view name) = 0;
  /// Pushes what the call makes.
  virtual void reduce(const PickleValue& callee, const PickleValue& arguments) = 0;
  virtual void build(PickleValue& target, const PickleValue& state) = 0;
  /// Opcodes that not every pickle may have; false where it is none of them.
  virtual bool run_other(std::uint8_t opcode);
  /// An integer that needs more than 64 bits.
  virtual void push_large_integer(std::size_t bytes);

  PickleValue& push(PickleKind kind);
  PickleValue& push_integer(PickleKind kind, std::int64_t value);
  void push_unpacked(std::optional<std::string> text, std::string_view expected);
  /// Gives an unpacked string a place that stays.
  std::string_view keep(std::string text);
  /// Counts memory that the file makes us spend beyond what its opcodes do by themselves.
  void charge(std::size_t bytes);
  PickleValue& pop();
  PickleValue& top();
  std::vector<const PickleValue*> pop_to_mark();
  /// Puts items into the container at the top.
  void add_items(PickleKind kind, const std::vector<const PickleValue*>& items);

  Bytes take(std::uint64_t count);
  std::uint64_t take_number(std::size_t bytes);

  const PickleValue& argument(const PickleValue& tuple, std::size_t index, PickleKind kind) const;
  Error refused(std::string_view expected, std::string_view found, std::string hint = {}) const;

 private:
  // Each of these handles the opcodes of one kind, and returns false where it is another.
  bool push_scalar(std::uint8_t opcode);
  bool push_float(std::uint8_t opcode);
  bool push_string(std::uint8_t opcode);
  bool build_list(std::uint8_t opcode);
  bool build_tuple(std::uint8_t opcode);
  bool build_dict(std::uint8_t opcode);
  bool move_on_stack(std::uint8_t opcode);
  bool use_memo(std::uint8_t opcode);
  bool make_object(std::uint8_t opcode);

  const PickleValue* finish();
  void remember(std::uint64_t key);
  void recall(std::uint64_t key);
  void push_long(std::uint64_t bytes);
  std::string_view take_line();
  std::int64_t take_decimal();

  Bytes file_;
  std::string where_;
  PickleOptions options_;
  Pickle& pickle_;
  std::size_t position_ = 0;
  std::size_t opcode_at_ = 0;
  std::size_t unpacked_bytes_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  ///< how high the stack was
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

}  // namespace lockstep::data
