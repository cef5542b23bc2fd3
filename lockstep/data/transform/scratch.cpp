#include "lockstep/data/transform/scratch.h"

#include <utility>

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

}  // namespace

std::uint8_t* Scratch::bytes(Use use, std::int64_t count) {
  auto& memory = memory_[static_cast<std::size_t>(use)];
  const auto needed = static_cast<std::size_t>(count) + kLine;
  if (memory.size() < needed) memory.resize(needed);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (kLine - address % kLine) % kLine;
}

const RowPlan& Scratch::row_plan(const ResizeKey& key) {
  return find_or_make(row_plans_, key, [&](RowPlan& plan) { plan_rows(key, taps_, plan); });
}

const ColumnPlan& Scratch::column_plan(const ResizeKey& key) {
  return find_or_make(column_plans_, key,
                      [&](ColumnPlan& plan) { plan_columns(key, taps_, plan); });
}

}  // namespace lockstep::data
