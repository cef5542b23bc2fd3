#include "lockstep/data/formats/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <system_error>
#include <utility>

#include "lockstep/base/strings.h"
#include "lockstep/data/formats/pickle_text.h"

namespace lockstep::data {
namespace {

/// CIFAR-100's largest file takes some 400,000.
constexpr std::size_t kMostOpcodes = std::size_t{4} << 20;
constexpr std::uint64_t kNewestProtocol = 5;

}  // namespace

PickleMachine::PickleMachine(Bytes file, std::string_view where, const PickleOptions& options,
                             Pickle& pickle)
    : file_(file), where_(where), options_(options), pickle_(pickle), position_(options.begin) {}

const PickleValue* PickleMachine::run() {
  for (std::size_t i = 0; i < kMostOpcodes; ++i) {
    opcode_at_ = position_;
    const auto opcode = take(1)[0];
    if (opcode == '.') return finish();
    const bool is_known = push_scalar(opcode) || push_float(opcode) || push_string(opcode) ||
                          build_list(opcode) || build_tuple(opcode) || build_dict(opcode) ||
                          use_memo(opcode) || move_on_stack(opcode) || make_object(opcode) ||
                          run_other(opcode);
    if (!is_known) {
      throw refused("an opcode of a pickle of plain values and arrays",
                    fmt::format("{:02x}", opcode));
    }
  }
  throw refused(fmt::format("at most {} opcodes", kMostOpcodes), "more");
}

const PickleValue* PickleMachine::finish() {
  const auto& root = pop();
  opcode_at_ = position_;
  if (options_.end == PickleOptions::End::OfFile && position_ != file_.size()) {
    throw refused("the end of the pickle", fmt::format("{} more bytes", file_.size() - position_));
  }
  pickle_.end_ = position_;
  return &root;
}

bool PickleMachine::run_other(std::uint8_t) {
  return false;
}

void PickleMachine::push_large_integer(std::size_t bytes) {
  throw refused("an integer of at most 8 bytes", fmt::format("{}", bytes));
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
      push_long(take_number(1));
      return true;
    case 0x8b:
      push_long(take_number(4));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::push_float(std::uint8_t opcode) {
  if (opcode == 'G') {
    std::uint64_t bits = 0;
    for (const auto byte : take(8)) bits = bits << 8 | byte;  // the only number that is big-endian
    push(PickleKind::Float).real = std::bit_cast<double>(bits);
    return true;
  }
  if (opcode != 'F') return false;
  const auto line = trim(take_line());
  double number = 0;
  const auto result = std::from_chars(line.data(), line.data() + line.size(), number);
  if (result.ec != std::errc{} || result.ptr != line.data() + line.size()) {
    throw refused("a number", fmt::format("'{}'", printable(line)));
  }
  push(PickleKind::Float).real = number;
  return true;
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
      add_items(PickleKind::List, {&item});
      return true;
    }
    case 'e': {
      add_items(PickleKind::List, pop_to_mark());
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
  add_items(PickleKind::Dict, items);
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
    case 'R': {
      const auto& arguments = pop();
      const auto& callee = pop();
      if (arguments.kind != PickleKind::Tuple) throw refused("arguments", name_of(arguments.kind));
      reduce(callee, arguments);
      return true;
    }
    case 'b': {
      const auto& state = pop();
      build(top(), state);
      return true;
    }
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
  charge(text.size());
  return pickle_.unpacked_.emplace_back(std::move(text));
}

void PickleMachine::charge(std::size_t bytes) {
  // Each byte of the file is unpacked once, or twice where it is also turned around, to at most
  // two. More comes only from a file that unpacks the same string again and again.
  unpacked_bytes_ += bytes;
  if (unpacked_bytes_ > 4 * file_.size()) {
    throw refused(fmt::format("at most {} bytes once unpacked", 4 * file_.size()), "more");
  }
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

void PickleMachine::add_items(PickleKind kind, const std::vector<const PickleValue*>& items) {
  auto& value = top();
  if (value.kind == PickleKind::Object) return;  // what it does with them, only its class knows
  if (value.kind != kind) throw refused(name_of(kind), name_of(value.kind));
  value.items.insert(value.items.end(), items.begin(), items.end());
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

void PickleMachine::push_long(std::uint64_t bytes) {
  if (bytes > 8) return push_large_integer(take(bytes).size());
  if (bytes == 0) {
    push_integer(PickleKind::Int, 0);
    return;
  }
  const auto number = take_number(static_cast<std::size_t>(bytes));
  const auto unused = 64 - 8 * static_cast<int>(bytes);
  // The sign stands at the top.
  push_integer(PickleKind::Int, static_cast<std::int64_t>(number << unused) >> unused);
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

Error PickleMachine::refused(std::string_view expected, std::string_view found,
                             std::string hint) const {
  return damaged(where_, opcode_at_, expected, found, std::move(hint));
}

}  // namespace lockstep::data
