#include "lockstep/data/transform/scratch.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "lockstep/data/transform/resize_plan.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kLine = 64;

/// The plan for a key: one of those kept, or the oldest of them made anew.
template <typename Cache, typename Make>
const auto& find_or_make(Cache& cache, const ResizeKey& key, const Make& make) {
  for (const auto& plan : cache.plans) {
    if (plan.key == key) return plan;
  }
  auto& plan = cache.plans[cache.next];
  cache.next = (cache.next + 1) % cache.plans.size();
  make(plan);
  return std::as_const(plan);
}

// Pictures of one size have one plan each. Crops of random size have as many as there are sizes,
// and no cache of sensible size helps.
constexpr std::size_t kPlans = 8;

template <typename Plan>
struct Plans {
  std::array<Plan, kPlans> plans;
  std::size_t next = 0;
};

}  // namespace

struct Scratch::State {
  std::array<std::vector<std::uint8_t>, 7> memory;
  Plans<RowPlan> row_plans;
  Plans<ColumnPlan> column_plans;
  FilterTaps taps;
};

Scratch::Scratch() : state_(std::make_unique<State>()) {}
Scratch::Scratch(Scratch&&) noexcept = default;
Scratch& Scratch::operator=(Scratch&&) noexcept = default;
Scratch::~Scratch() = default;

std::uint8_t* Scratch::bytes(Use use, std::int64_t count) {
  auto& memory = state_->memory[static_cast<std::size_t>(use)];
  const auto needed = static_cast<std::size_t>(count) + kLine;
  if (memory.size() < needed) memory.resize(needed);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (kLine - address % kLine) % kLine;
}

const RowPlan& Scratch::row_plan(const ResizeKey& key) {
  return find_or_make(state_->row_plans, key,
                      [&](RowPlan& plan) { plan_rows(key, state_->taps, plan); });
}

const ColumnPlan& Scratch::column_plan(const ResizeKey& key) {
  return find_or_make(state_->column_plans, key,
                      [&](ColumnPlan& plan) { plan_columns(key, state_->taps, plan); });
}

}  // namespace lockstep::data
