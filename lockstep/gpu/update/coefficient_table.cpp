#include "lockstep/gpu/update/coefficient_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optimizer/coefficients.h"

namespace lockstep::gpu {
namespace {

Coefficients coefficients_of(const Optimizer& optimizer, const UpdateFacts& facts) {
  if (optimizer.kind() == OptimizerKind::Sgd) {
    const auto sgd = optimizer::sgd_coefficients(optimizer.sgd(), facts, 1);
    return {.lr = facts.lr, .step_size = sgd.lr, .weight_decay = sgd.weight_decay};
  }
  const auto adam = optimizer::adam_coefficients(optimizer.adam(), facts, 1);
  return {.lr = facts.lr,
          .step_size = adam.step_size,
          .weight_decay = adam.weight_decay,
          .shrink = adam.shrink,
          .root_bias2 = adam.root_bias2,
          .inverse_bias1 = adam.inverse_bias1};
}

/// By parameter, the first one that has the same coefficients in all rows: most have, and powers
/// are slow.
std::vector<std::size_t> first_alike(const LaunchFacts& facts) {
  std::vector<std::size_t> alike;
  std::vector<std::size_t> firsts;
  for (std::size_t i = 0; i < facts.settings.size(); ++i) {
    const auto found = std::ranges::find_if(firsts, [&](std::size_t first) {
      return facts.settings[first] == facts.settings[i] && facts.counts[first] == facts.counts[i];
    });
    alike.push_back(found == firsts.end() ? i : *found);
    if (alike.back() == i) firsts.push_back(i);
  }
  return alike;
}

void check_table(const LaunchFacts& facts, std::size_t size) {
  const auto rows = num_coefficient_rows(facts.lr_factors.size(), facts.skips);
  if (facts.counts.size() == facts.settings.size() && size == rows * facts.settings.size()) return;
  throw Error(ErrorKind::Bug,
              fmt::format("coefficients: expected {} rows of {} parameters, found {} entries and "
                          "{} counts",
                          rows, facts.settings.size(), size, facts.counts.size()));
}

/// One row, for a step with so many updates before it.
void fill_row(const LaunchFacts& facts, std::span<const std::size_t> alike, double lr_factor,
              std::int64_t updates, std::span<Coefficients> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = alike[i] < i
                 ? row[alike[i]]
                 : coefficients_of(facts.optimizer, {.lr = facts.settings[i].lr * lr_factor,
                                                     .weight_decay = facts.settings[i].weight_decay,
                                                     .count = facts.counts[i] + updates + 1});
  }
}

}  // namespace

void fill_coefficients(const LaunchFacts& facts, std::span<Coefficients> table) {
  check_table(facts, table.size());
  const auto alike = first_alike(facts);
  const auto width = facts.settings.size();
  for (std::int32_t step = 0; step < std::ssize(facts.lr_factors); ++step) {
    for (auto updates = facts.skips == Skips::Never ? step : 0; updates <= step; ++updates) {
      const auto row = static_cast<std::size_t>(coefficient_row(step, updates, facts.skips));
      fill_row(facts, alike, facts.lr_factors[static_cast<std::size_t>(step)], updates,
               table.subspan(row * width, width));
    }
  }
}

}  // namespace lockstep::gpu
