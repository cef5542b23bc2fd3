#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/data/formats/pickle_machine.h"

namespace lockstep::data {

/// A machine for pickles of which objects are arrays of unsigned bytes, and what numpy and Python 2
/// wrap around them. Every other name is refused.
class PickleArrays final : public PickleMachine {
 public:
  using PickleMachine::PickleMachine;

 private:
  void push_global(std::string_view module, std::string_view name) override;
  void reduce(const PickleValue& callee, const PickleValue& arguments) override;
  void build(PickleValue& target, const PickleValue& state) override;

  void reduce_encode(const PickleValue& arguments);
  void reduce_dtype(const PickleValue& arguments);
  void reduce_reconstruct(const PickleValue& arguments);
  void reduce_from_buffer(const PickleValue& arguments);
  void fill_array(PickleValue& array, const PickleValue& shape, const PickleValue& type,
                  const PickleValue& elements, bool is_fortran);
  std::string_view to_c_order(std::string_view elements, const std::vector<std::int64_t>& shape);
};

}  // namespace lockstep::data
