#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace lockstep::gpu {

using Floats = std::vector<float>;

/// Numbers of all sizes, from the smallest subnormals up to 2^`most`, with zeros of both signs
/// among them: whoever flushes or contracts gets other bits.
inline Floats wide_floats(std::size_t count, unsigned seed, int most = 10) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> exponent(-150, most);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  Floats values(count);
  for (auto& value : values) value = std::ldexp(mantissa(generator), exponent(generator));
  return values;
}

inline Floats plain_floats(std::size_t count, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  Floats values(count);
  for (auto& value : values) value = distribution(generator);
  return values;
}

inline bool same_bits(float left, float right) {
  return std::bit_cast<std::uint32_t>(left) == std::bit_cast<std::uint32_t>(right) ||
         (std::isnan(left) && std::isnan(right));  // chips choose for themselves what it carries
}

inline bool same_bits(double left, double right) {
  return std::bit_cast<std::uint64_t>(left) == std::bit_cast<std::uint64_t>(right) ||
         (std::isnan(left) && std::isnan(right));
}

template <typename Integer>
bool same_bits(Integer left, Integer right) {
  return left == right;
}

template <typename T>
void expect_same_bits(const std::vector<T>& found, const std::vector<T>& expected,
                      const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  std::size_t different = 0;
  std::size_t first = 0;
  for (std::size_t i = found.size(); i-- > 0;) {
    if (same_bits(found[i], expected[i])) continue;
    ++different;
    first = i;
  }
  if (different == 0) return;
  ADD_FAILURE() << what << ": " << different << " of " << found.size() << " differ, the first at "
                << first << ": found " << found[first] << ", expected " << expected[first];
}

}  // namespace lockstep::gpu
