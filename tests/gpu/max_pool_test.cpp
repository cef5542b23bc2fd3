#include "lockstep/gpu/layers/max_pool.h"

#include <gtest/gtest.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/half.h"
#include "tests/gpu/numbers.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

TEST(MaxPoolTest, RefusesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_THROW(max_pool_forward({}, nullptr), Error);
  EXPECT_THROW(max_pool_backward({}, nullptr), Error);
}

/// What a window has, and what it hands back to its pixels, one number at a time.
class Reference {
 public:
  explicit Reference(const PoolShape& shape) : shape_(shape) {}

  struct Largest {
    Floats y;
    std::vector<std::uint8_t> places;
  };

  Largest forward(const Floats& x) const {
    Largest largest;
    each_output([&](std::size_t, std::int64_t sample, std::int64_t row, std::int64_t column,
                    std::int64_t channel) {
      float best = -std::numeric_limits<float>::infinity();
      int place = -1;
      each_pixel(sample, row, column, channel, [&](int here, std::size_t pixel) {
        const bool is_better =
            place < 0 || x[pixel] > best || (std::isnan(x[pixel]) && !std::isnan(best));
        if (!is_better) return;
        best = x[pixel];
        place = here;
      });
      largest.y.push_back(best);
      largest.places.push_back(static_cast<std::uint8_t>(place));
    });
    return largest;
  }

  Floats backward(const Floats& dy, const std::vector<std::uint8_t>& places) const {
    Floats dx(
        static_cast<std::size_t>(shape_.samples * shape_.height * shape_.width * shape_.channels));
    each_output([&](std::size_t output, std::int64_t sample, std::int64_t row, std::int64_t column,
                    std::int64_t channel) {
      each_pixel(sample, row, column, channel, [&](int here, std::size_t pixel) {
        if (here == places[output]) dx[pixel] += dy[output];
      });
    });
    return dx;
  }

 private:
  template <typename Visit>
  void each_output(Visit visit) const {
    std::size_t output = 0;
    for (std::int64_t sample = 0; sample < shape_.samples; ++sample) {
      for (std::int64_t row = 0; row < shape_.out_height(); ++row) {
        for (std::int64_t column = 0; column < shape_.out_width(); ++column) {
          for (std::int64_t channel = 0; channel < shape_.channels; ++channel) {
            visit(output++, sample, row, column, channel);
          }
        }
      }
    }
  }

  template <typename Visit>
  void each_pixel(std::int64_t sample, std::int64_t row, std::int64_t column, std::int64_t channel,
                  Visit visit) const {
    for (int place = 0; place < shape_.kernel * shape_.kernel; ++place) {
      const auto y = row * shape_.stride - shape_.padding + place / shape_.kernel;
      const auto x = column * shape_.stride - shape_.padding + place % shape_.kernel;
      if (y < 0 || y >= shape_.height || x < 0 || x >= shape_.width) continue;
      const auto pixel =
          ((sample * shape_.height + y) * shape_.width + x) * shape_.channels + channel;
      visit(place, static_cast<std::size_t>(pixel));
    }
  }

  PoolShape shape_;
};

/// The ResNets' own, windows that do not meet, windows that overlap much, and odd numbers of all.
const std::vector<PoolShape>& shapes() {
  static const std::vector<PoolShape> all{
      {DataType::F32, 3, 32, 32, 64, 3, 2, 1}, {DataType::F32, 2, 7, 9, 5, 3, 2, 1},
      {DataType::F32, 1, 8, 8, 8, 2, 2, 0},    {DataType::F32, 2, 13, 11, 3, 5, 1, 2},
      {DataType::F32, 1, 3, 3, 1, 3, 3, 0},    {DataType::F32, 2, 17, 19, 72, 4, 3, 2}};
  return all;
}

/// Small whole numbers, so that many are equal and sums are exact in any type.
Floats few_numbers(std::int64_t count, unsigned seed) {
  auto values = plain_floats(static_cast<std::size_t>(count), seed, -4, 4);
  for (auto& value : values) value = std::round(value);
  return values;
}

std::int64_t inputs(const PoolShape& shape) {
  return shape.samples * shape.height * shape.width * shape.channels;
}
std::int64_t outputs(const PoolShape& shape) {
  return shape.samples * shape.out_height() * shape.out_width() * shape.channels;
}

using MaxPoolOnDeviceTest = DeviceTest;

TEST_F(MaxPoolOnDeviceTest, FindsTheFirstOfTheLargest) {
  for (const auto& shape : shapes()) {
    auto x = few_numbers(inputs(shape), 1);
    x[x.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    x[x.size() / 3] = -std::numeric_limits<float>::infinity();
    const auto expected = Reference(shape).forward(x);
    const OnDevice<float> x_there(x);
    const OnDevice<float> y(expected.y.size());
    const OnDevice<std::uint8_t> places(expected.y.size());
    max_pool_forward({shape, x_there.data(), y.data(), places.data()}, nullptr);
    expect_same_bits(y.values(), expected.y, "y");
    EXPECT_EQ(places.values(), expected.places) << shape.height << " x " << shape.width;
  }
}

TEST_F(MaxPoolOnDeviceTest, HandsBackToWhatWasLargest) {
  for (const auto& shape : shapes()) {
    const auto largest = Reference(shape).forward(few_numbers(inputs(shape), 2));
    const auto dy = plain_floats(static_cast<std::size_t>(outputs(shape)), 3);
    const OnDevice<float> dy_there(dy);
    const OnDevice<std::uint8_t> places(largest.places);
    const OnDevice<float> dx(static_cast<std::size_t>(inputs(shape)));
    max_pool_backward({shape, dy_there.data(), places.data(), dx.data()}, nullptr);
    expect_same_bits(dx.values(), Reference(shape).backward(dy, largest.places), "dx");
  }
}

template <typename ToHalf>
void expect_the_same_in(DataType type, ToHalf to_half) {
  for (auto shape : shapes()) {
    const auto x = few_numbers(inputs(shape), 4);
    const auto dy = few_numbers(outputs(shape), 5);
    const auto expected = Reference(shape).forward(x);
    const auto narrow = [&](const Floats& values) {
      std::vector<std::uint16_t> bits;
      for (const float value : values) bits.push_back(to_half(value).bits);
      return bits;
    };
    shape.type = type;
    const OnDevice<std::uint16_t> x_there(narrow(x));
    const OnDevice<std::uint16_t> dy_there(narrow(dy));
    const OnDevice<std::uint16_t> y(expected.y.size());
    const OnDevice<std::uint8_t> places(expected.y.size());
    const OnDevice<std::uint16_t> dx(x.size());
    max_pool_forward({shape, x_there.data(), y.data(), places.data()}, nullptr);
    max_pool_backward({shape, dy_there.data(), places.data(), dx.data()}, nullptr);
    EXPECT_EQ(y.values(), narrow(expected.y));
    EXPECT_EQ(places.values(), expected.places);
    EXPECT_EQ(dx.values(), narrow(Reference(shape).backward(dy, expected.places)));
  }
}

TEST_F(MaxPoolOnDeviceTest, DoesSoInHalfPrecision) {
  expect_the_same_in(DataType::F16, [](float value) { return to_float16(value); });
  expect_the_same_in(DataType::BF16, [](float value) { return to_bfloat16(value); });
}

}  // namespace
}  // namespace lockstep::gpu
