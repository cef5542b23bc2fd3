#include "lockstep/gpu/pictures/level_numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/gpu/pictures/level_math.h"

namespace lockstep::gpu {
namespace {

using data::kernels::Division;

/// Whether every level of a channel gets the same bits with and without division.
bool is_exact(float mean, float deviation) {
  const auto reciprocal = 1.0F / deviation;
  for (int level = 0; level < 256; ++level) {
    const auto x = static_cast<float>(level);
    const auto corrected = normalized<Division::Correct>(x, mean, deviation, reciprocal);
    const auto divided = normalized<Division::Divide>(x, mean, deviation, reciprocal);
    if (std::memcmp(&corrected, &divided, sizeof(corrected)) != 0) return false;
  }
  return true;
}

float erased_level(float mean) {
  return std::round(std::fmin(std::fmax(mean, 0.0F), 1.0F) * 255.0F);
}

void check(const data::Normalize& normalize, std::int64_t channels) {
  const auto count = static_cast<std::size_t>(channels);
  if (normalize.mean.size() == count && normalize.deviation.size() == count) return;
  throw Error(ErrorKind::Options,
              fmt::format("pixels: expected a mean and a deviation for each of {} channels, found "
                          "{} and {}",
                          channels, normalize.mean.size(), normalize.deviation.size()));
}

}  // namespace

LevelNumbers level_numbers(const std::optional<data::Normalize>& normalize, std::int64_t channels) {
  if (normalize) check(*normalize, channels);
  const auto count = static_cast<std::size_t>(channels);
  LevelNumbers numbers{.channels = channels, .division = Division::Correct, .values = {}};
  numbers.values.resize(LevelNumbers::kRows * count);
  for (std::size_t c = 0; c < count; ++c) {
    const auto mean = normalize ? normalize->mean[c] : 0.0F;
    const auto deviation = normalize ? normalize->deviation[c] : 1.0F;
    if (!is_exact(mean, deviation)) numbers.division = Division::Divide;
    numbers.values[c] = mean;
    numbers.values[count + c] = deviation;
    numbers.values[2 * count + c] = 1.0F / deviation;
    numbers.values[3 * count + c] = erased_level(mean);
  }
  return numbers;
}

}  // namespace lockstep::gpu
