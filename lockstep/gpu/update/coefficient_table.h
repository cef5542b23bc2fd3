#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/optimizer/optimizer.h"
#include "lockstep/optimizer/parameter_settings.h"

namespace lockstep::gpu {

/// What an update needs to know of one parameter: as `optimizer/coefficients.h` computes it, since
/// powers of a double are not the same bits on a GPU.
struct alignas(16) Coefficients {
  double lr = 0;        ///< LAMB, whose step size is this times the trust, rounded then
  float step_size = 0;  ///< SGD: lr; Adam, AdamW: lr over the first bias correction
  float weight_decay = 0;
  float shrink = 0;         ///< AdamW: what is left of a weight
  float root_bias2 = 0;     ///< square root of the second bias correction
  float inverse_bias1 = 0;  ///< LAMB: one over the first bias correction
};

/// Whether a step of the iteration may change nothing, as loss scaling has it. The GPU alone knows
/// then how many updates there were, and the table has a row for each number that there can be.
enum class Skips : std::uint8_t { Never, Possible };

/// Rows that an iteration of so many steps has: one for each step, or for each step and each number
/// of updates before it.
constexpr std::size_t num_coefficient_rows(std::size_t steps, Skips skips) noexcept {
  return skips == Skips::Never ? steps : steps * (steps + 1) / 2;
}

/// The row of a step, counted from 0, with so many updates before it in the iteration.
constexpr std::int32_t coefficient_row(std::int32_t step, std::int32_t updates,
                                       Skips skips) noexcept {
  return skips == Skips::Never ? step : step * (step + 1) / 2 + updates;
}

/// What the coefficients of an iteration follow from.
struct LaunchFacts {
  const Optimizer& optimizer;
  std::span<const optimizer::ParameterSettings> settings;  ///< by parameter
  std::span<const std::int64_t> counts;  ///< by parameter: updates before the iteration
  std::span<const double> lr_factors;    ///< by step: the schedule's
  Skips skips = Skips::Never;
};

/// Writes all rows of an iteration, each with an entry for each parameter. A parameter has a
/// gradient in all steps of an iteration, or in none.
///
/// Errors: `Bug` for a table of another size.
void fill_coefficients(const LaunchFacts& facts, std::span<Coefficients> table);

}  // namespace lockstep::gpu
