#include "lockstep/data/formats/pickle_symbols.h"

#include <fmt/format.h>

namespace lockstep::data {
namespace {

constexpr std::string_view kOrderedDict = "collections.OrderedDict";

}  // namespace

void PickleSymbols::push_global(std::string_view module, std::string_view name) {
  const auto full_name = keep(fmt::format("{}.{}", module, name));
  push(PickleKind::Global).bytes = full_name;
}

void PickleSymbols::reduce(const PickleValue& callee, const PickleValue& arguments) {
  // What is called may itself be the result of a call, as with functools.partial.
  if (callee.kind != PickleKind::Global && callee.kind != PickleKind::Object) {
    throw refused("a function to call", name_of(callee.kind));
  }
  if (callee.bytes == kOrderedDict) return push_ordered_dict(arguments);
  push_object(callee.bytes, arguments);
}

/// Python 2 hands over a list of pairs; Python 3 nothing, and sets the items afterwards.
void PickleSymbols::push_ordered_dict(const PickleValue& arguments) {
  auto& dict = push(PickleKind::Dict);
  if (arguments.items.empty()) return;
  const auto& pairs = argument(arguments, 0, PickleKind::List);
  charge(pairs.items.size() * 2 * sizeof(void*));
  for (const auto* const pair : pairs.items) {
    if (pair->items.size() != 2) {
      throw refused("a list of keys and values", fmt::format("an entry of {}", pair->items.size()));
    }
    dict.items.insert(dict.items.end(), pair->items.begin(), pair->items.end());
  }
}

void PickleSymbols::push_object(std::string_view name, const PickleValue& made_of) {
  auto& object = push(PickleKind::Object);
  object.bytes = name;
  // The tuple itself, not its items: many calls may share it.
  object.items = {&made_of};
}

void PickleSymbols::build(PickleValue& target, const PickleValue& state) {
  if (target.kind != PickleKind::Object || target.items.empty()) return;
  target.items.resize(1);  // a state that is set again replaces the one before
  target.items.push_back(&state);
}

bool PickleSymbols::run_other(std::uint8_t opcode) {
  switch (opcode) {
    case 'Q':  // BINPERSID
      push_object(kPersistent, pop());
      return true;
    case 0x92:  // NEWOBJ_EX: keyword arguments on top
      pop();
      [[fallthrough]];
    case 0x81: {  // NEWOBJ
      const auto& arguments = pop();
      const auto& type = pop();
      if (arguments.kind != PickleKind::Tuple) throw refused("arguments", name_of(arguments.kind));
      reduce(type, arguments);
      return true;
    }
    case 0x8f:  // EMPTY_SET
      push(PickleKind::List);
      return true;
    case 0x90:  // ADDITEMS
      add_items(PickleKind::List, pop_to_mark());
      return true;
    case 0x91: {  // FROZENSET
      auto items = pop_to_mark();
      push(PickleKind::List).items = std::move(items);
      return true;
    }
    default:
      return false;
  }
}

void PickleSymbols::push_large_integer(std::size_t) {
  push(PickleKind::Object).bytes = "an integer of more than 64 bits";
}

}  // namespace lockstep::data
