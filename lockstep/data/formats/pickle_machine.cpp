#include "lockstep/data/formats/pickle_machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/strings.h"
#include "lockstep/data/formats/pickle_text.h"

namespace lockstep::data {
namespace {

/// CIFAR-100's largest file takes some 400,000.
constexpr std::size_t kMostOpcodes = std::size_t{4} << 20;
constexpr std::uint64_t kNewestProtocol = 5;

}  // namespace

PickleMachine::PickleMachine(Bytes file, std::string_view where, Pickle& pickle)
    : file_(file), where_(where), pickle_(pickle) {}

const PickleValue* PickleMachine::run() {
  for (std::size_t i = 0; i < kMostOpcodes; ++i) {
    opcode_at_ = position_;
    const auto opcode = take(1)[0];
    if (opcode == '.') {
      const auto& root = pop();
      opcode_at_ = position_;
      if (position_ != file_.size()) {
        throw refused("the end of the pickle",
                      fmt::format("{} more bytes", file_.size() - position_));
      }
      return &root;
    }
    const bool is_known = push_scalar(opcode) || push_string(opcode) || build_list(opcode) ||
                          build_tuple(opcode) || build_dict(opcode) || use_memo(opcode) ||
                          move_on_stack(opcode) || make_object(opcode);
    if (!is_known) {
      throw refused("an opcode of a pickle of plain values and arrays",
                    fmt::format("{:02x}", opcode));
    }
  }
  throw refused(fmt::format("at most {} opcodes", kMostOpcodes), "more");
}

bool PickleMachine::push_scalar(std::uint8_t opcode) {
  switch (opcode) {
    case 'N':
      push(PickleKind::None);
      return true;
    case 0x88:
    case 0x89:
      push_integer(PickleKind::Bool, opcode == 0x88 ? 1 : 0);
      return true;
    case 'I': {
      const auto line = file_.subspan(position_);
      const bool is_bool = as_text(line).starts_with("00\n") || as_text(line).starts_with("01\n");
      push_integer(is_bool ? PickleKind::Bool : PickleKind::Int, take_decimal());
      return true;
    }
    case 'L':
      push_integer(PickleKind::Int, take_decimal());
      return true;
    case 'J':
      push_integer(PickleKind::Int, static_cast<std::int32_t>(take_number(4)));
      return true;
    case 'K':
      push_integer(PickleKind::Int, static_cast<std::int64_t>(take_number(1)));
      return true;
    case 'M':
      push_integer(PickleKind::Int, static_cast<std::int64_t>(take_number(2)));
      return true;
    case 0x8a:
      push_integer(PickleKind::Int, take_long(take_number(1)));
      return true;
    case 0x8b:
      push_integer(PickleKind::Int, take_long(take_number(4)));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::push_string(std::uint8_t opcode) {
  std::size_t bytes_of_length = 0;
  switch (opcode) {
    case 'S':
      push_unpacked(unquote(trim(take_line())), "a string in quotes");
      return true;
    case 'V':
      push_unpacked(utf8_of_raw_unicode(take_line()), "text with escapes as in \\u0041");
      return true;
    case 'U':   // SHORT_BINSTRING
    case 'C':   // SHORT_BINBYTES
    case 0x8c:  // SHORT_BINUNICODE
      bytes_of_length = 1;
      break;
    case 'T':  // BINSTRING
    case 'B':  // BINBYTES
    case 'X':  // BINUNICODE
      bytes_of_length = 4;
      break;
    case 0x8d:  // BINUNICODE8
    case 0x8e:  // BINBYTES8
    case 0x96:  // BYTEARRAY8
      bytes_of_length = 8;
      break;
    default:
      return false;
  }
  const auto content = take(take_number(bytes_of_length));
  push(PickleKind::String).bytes = as_text(content);
  return true;
}

bool PickleMachine::build_list(std::uint8_t opcode) {
  switch (opcode) {
    case ']':
      push(PickleKind::List);
      return true;
    case 'l': {
      auto items = pop_to_mark();
      push(PickleKind::List).items = std::move(items);
      return true;
    }
    case 'a': {
      const auto& item = pop();
      top_of_kind(PickleKind::List).items.push_back(&item);
      return true;
    }
    case 'e': {
      const auto items = pop_to_mark();
      auto& list = top_of_kind(PickleKind::List).items;
      list.insert(list.end(), items.begin(), items.end());
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::build_tuple(std::uint8_t opcode) {
  std::vector<const PickleValue*> items;
  switch (opcode) {
    case ')':
      break;
    case 't':
      items = pop_to_mark();
      break;
    case 0x85:
    case 0x86:
    case 0x87:
      for (auto left = opcode - 0x84; left > 0; --left) items.push_back(&pop());
      std::reverse(items.begin(), items.end());
      break;
    default:
      return false;
  }
  push(PickleKind::Tuple).items = std::move(items);
  return true;
}

bool PickleMachine::build_dict(std::uint8_t opcode) {
  std::vector<const PickleValue*> items;
  switch (opcode) {
    case '}':
      push(PickleKind::Dict);
      return true;
    case 's': {
      const auto& value = pop();
      items = {&pop(), &value};
      break;
    }
    case 'd':
    case 'u':
      items = pop_to_mark();
      if (opcode == 'd') push(PickleKind::Dict);
      break;
    default:
      return false;
  }
  if (items.size() % 2 != 0) throw refused("a value for each key", "an odd number of them");
  auto& dict = top_of_kind(PickleKind::Dict).items;
  dict.insert(dict.end(), items.begin(), items.end());
  return true;
}

bool PickleMachine::move_on_stack(std::uint8_t opcode) {
  switch (opcode) {
    case 0x80:
      if (const auto protocol = take_number(1); protocol > kNewestProtocol) {
        throw refused(fmt::format("a pickle of protocol 0 to {}", kNewestProtocol),
                      fmt::format("protocol {}", protocol));
      }
      return true;
    case 0x95:  // FRAME: how much may be read ahead; all of it is here
      take_number(8);
      return true;
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '0':
      pop();
      return true;
    case '1':
      pop_to_mark();
      return true;
    case '2':
      stack_.push_back(&top());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::use_memo(std::uint8_t opcode) {
  switch (opcode) {
    case 'g':
      recall(static_cast<std::uint64_t>(take_decimal()));
      return true;
    case 'h':
      recall(take_number(1));
      return true;
    case 'j':
      recall(take_number(4));
      return true;
    case 'p':
      remember(static_cast<std::uint64_t>(take_decimal()));
      return true;
    case 'q':
      remember(take_number(1));
      return true;
    case 'r':
      remember(take_number(4));
      return true;
    case 0x94:
      remember(memo_.size());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::make_object(std::uint8_t opcode) {
  switch (opcode) {
    case 'c': {
      const auto module = take_line();
      push_global(module, take_line());
      return true;
    }
    case 0x93: {
      const auto& name = pop();
      const auto& module = pop();
      push_global(module.bytes, name.bytes);
      return true;
    }
    case 'R':
      reduce();
      return true;
    case 'b':
      build();
      return true;
    default:
      return false;
  }
}

PickleValue& PickleMachine::push(PickleKind kind) {
  auto& value = pickle_.values_.emplace_back();
  value.kind = kind;
  value.offset = opcode_at_;
  stack_.push_back(&value);
  return value;
}

PickleValue& PickleMachine::push_integer(PickleKind kind, std::int64_t value) {
  auto& pushed = push(kind);
  pushed.integer = value;
  return pushed;
}

void PickleMachine::push_unpacked(std::optional<std::string> text, std::string_view expected) {
  if (!text) throw refused(expected, "something else");
  const auto kept = keep(std::move(*text));
  push(PickleKind::String).bytes = kept;
}

std::string_view PickleMachine::keep(std::string text) {
  // Each byte of the file is unpacked once, or twice where it is also turned around, to at most
  // two. More comes only from a file that unpacks the same string again and again.
  unpacked_bytes_ += text.size();
  if (unpacked_bytes_ > 4 * file_.size()) {
    throw refused(fmt::format("at most {} bytes once unpacked", 4 * file_.size()), "more");
  }
  return pickle_.unpacked_.emplace_back(std::move(text));
}

PickleValue& PickleMachine::top() {
  // What is below a mark belongs to whoever set it.
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    throw refused("a value on the stack", "none");
  }
  return *stack_.back();
}

PickleValue& PickleMachine::pop() {
  auto& value = top();
  stack_.pop_back();
  return value;
}

PickleValue& PickleMachine::top_of_kind(PickleKind kind) {
  auto& value = top();
  if (value.kind != kind) throw refused(name_of(kind), name_of(value.kind));
  return value;
}

std::vector<const PickleValue*> PickleMachine::pop_to_mark() {
  if (marks_.empty()) throw refused("a mark on the stack", "none");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<const PickleValue*> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void PickleMachine::remember(std::uint64_t key) {
  memo_[key] = &top();
}

void PickleMachine::recall(std::uint64_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) throw refused(fmt::format("a value remembered as {}", key), "none");
  stack_.push_back(found->second);
}

Bytes PickleMachine::take(std::uint64_t count) {
  if (count > file_.size() - position_) {
    throw refused(fmt::format("{} more bytes", count),
                  fmt::format("the end of the pickle at byte {}", file_.size()));
  }
  const auto bytes = file_.subspan(position_, static_cast<std::size_t>(count));
  position_ += bytes.size();
  return bytes;
}

std::uint64_t PickleMachine::take_number(std::size_t bytes) {
  const auto digits = take(bytes);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bytes; ++i) number |= std::uint64_t{digits[i]} << (8 * i);
  return number;
}

std::int64_t PickleMachine::take_long(std::uint64_t bytes) {
  if (bytes > 8) throw refused("an integer of at most 8 bytes", fmt::format("{}", bytes));
  if (bytes == 0) return 0;
  const auto number = take_number(static_cast<std::size_t>(bytes));
  const auto unused = 64 - 8 * static_cast<int>(bytes);
  return static_cast<std::int64_t>(number << unused) >> unused;  // the sign stands at the top
}

std::string_view PickleMachine::take_line() {
  const auto rest = as_text(file_.subspan(position_));
  const auto end = rest.find('\n');
  if (end == std::string_view::npos) {
    throw refused("a line of text", fmt::format("the end of the pickle at byte {}", file_.size()));
  }
  position_ += end + 1;
  return rest.substr(0, end);
}

std::int64_t PickleMachine::take_decimal() {
  auto line = take_line();
  if (line.ends_with('L')) line.remove_suffix(1);
  const auto number = parse_integer(line);
  if (!number) throw refused("an integer", fmt::format("'{}'", printable(line)));
  return *number;
}

const PickleValue& PickleMachine::argument(const PickleValue& tuple, std::size_t index,
                                           PickleKind kind) const {
  if (index >= tuple.items.size()) {
    throw refused(fmt::format("{} as part {} of a tuple", name_of(kind), index),
                  fmt::format("a tuple of {}", tuple.items.size()));
  }
  const auto& value = *tuple.items[index];
  if (value.kind != kind) {
    throw refused(fmt::format("{} as part {} of a tuple", name_of(kind), index),
                  name_of(value.kind));
  }
  return value;
}

Error PickleMachine::refused(std::string_view expected, std::string_view found) const {
  return damaged(where_, opcode_at_, expected, found);
}

}  // namespace lockstep::data
