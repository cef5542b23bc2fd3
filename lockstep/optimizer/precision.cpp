#include "lockstep/optimizer/precision.h"

#include <array>

#include "lockstep/optimizer/words.h"

namespace lockstep {
namespace {

using Word = std::string_view;
using optimizer::parse_word;

// In the order of the enumerations, so that a value is the place of its name.
constexpr std::array kPrecisions{Word("32.32"), Word("16.32"), Word("16.16")};
constexpr std::array kHalves{Word("bf16"), Word("fp16")};
constexpr std::array kReductions{Word("mean"), Word("sum")};
constexpr std::array kOrders{Word("ordered"), Word("fast")};

}  // namespace

Precision parse_precision(std::string_view text) {
  return parse_word<Precision>("precision", text, kPrecisions);
}

Half parse_half(std::string_view text) {
  return parse_word<Half>("half", text, kHalves);
}

Reduction parse_reduction(std::string_view text) {
  return parse_word<Reduction>("reduction", text, kReductions);
}

ReductionOrder parse_reduction_order(std::string_view text) {
  return parse_word<ReductionOrder>("reduction order", text, kOrders);
}

std::string_view name_of(Precision precision) noexcept {
  return kPrecisions[static_cast<std::size_t>(precision)];
}

std::string_view name_of(Half half) noexcept {
  return kHalves[static_cast<std::size_t>(half)];
}

std::string_view name_of(Reduction reduction) noexcept {
  return kReductions[static_cast<std::size_t>(reduction)];
}

std::string_view name_of(ReductionOrder order) noexcept {
  return kOrders[static_cast<std::size_t>(order)];
}

}  // namespace lockstep
