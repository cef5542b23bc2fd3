#include "lockstep/data/formats/pickle.h"

#include "lockstep/data/formats/pickle_arrays.h"
#include "lockstep/data/formats/pickle_symbols.h"

namespace lockstep::data {

std::string_view name_of(PickleKind kind) noexcept {
  switch (kind) {
    case PickleKind::None:
      return "none";
    case PickleKind::Bool:
      return "a bool";
    case PickleKind::Int:
      return "an integer";
    case PickleKind::Float:
      return "a float";
    case PickleKind::String:
      return "a string";
    case PickleKind::List:
      return "a list";
    case PickleKind::Tuple:
      return "a tuple";
    case PickleKind::Dict:
      return "a dict";
    case PickleKind::Array:
      return "an array";
    case PickleKind::Global:
      return "a name";
    case PickleKind::Object:
      return "an object";
  }
  return "?";
}

const PickleValue* PickleValue::find(std::string_view key) const noexcept {
  if (kind != PickleKind::Dict) return nullptr;
  const PickleValue* found = nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {  // the last one wins, as in Python
    if (items[i]->kind == PickleKind::String && items[i]->bytes == key) found = items[i + 1];
  }
  return found;
}

Pickle::Pickle(Bytes file, std::string_view where, const PickleOptions& options) {
  if (options.calls == PickleCalls::Arrays) {
    root_ = PickleArrays(file, where, options, *this).run();
  } else {
    root_ = PickleSymbols(file, where, options, *this).run();
  }
}

}  // namespace lockstep::data
