#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/data/formats/pickle_machine.h"

namespace lockstep::data {

/// A machine that writes down what a pickle would call instead of calling it.
///
/// A name becomes a Global, "module.name". A call becomes an Object of that name whose first item
/// is the tuple of arguments; a persistent id one called `kPersistent` whose first item is the id.
/// A state that is set afterwards becomes the second item, which may refer back to the object. Two
/// things are understood, since they are plain values: `collections.OrderedDict` is a Dict, and a
/// set is a List; their states are dropped.
class PickleSymbols final : public PickleMachine {
 public:
  using PickleMachine::PickleMachine;

 private:
  void push_global(std::string_view module, std::string_view name) override;
  void reduce(const PickleValue& callee, const PickleValue& arguments) override;
  void build(PickleValue& target, const PickleValue& state) override;
  bool run_other(std::uint8_t opcode) override;
  void push_large_integer(std::size_t bytes) override;

  void push_ordered_dict(const PickleValue& arguments);
  void push_object(std::string_view name, const PickleValue& made_of);
};

}  // namespace lockstep::data
