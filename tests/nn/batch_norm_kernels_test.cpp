#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "lockstep/nn/layers/batch_norm_group.h"

namespace lockstep::nn::batch_norm {
namespace {

constexpr auto kNan = std::numeric_limits<float>::quiet_NaN();
constexpr auto kInfinity = std::numeric_limits<float>::infinity();

/// Few channels and many, odd and even; rows that fill no line, no block and no chunk.
const std::vector<Shape> kShapes{{2, 1},    {5, 3},      {1000, 1},  {70001, 1}, {3001, 3},
                                 {777, 10}, {1025, 17},  {8192, 16}, {4099, 16}, {600, 64},
                                 {37, 100}, {9, 513},    {130, 512}, {49, 2048}, {33, 2049},
                                 {7, 1},    {40000, 16}, {64, 63}};

void alone(std::int64_t tasks, std::int64_t /*grain*/,
           const std::function<void(std::int64_t, std::int64_t)>& work) {
  work(0, tasks);
}

/// Each task by itself, and the last one first.
void apart(std::int64_t tasks, std::int64_t /*grain*/,
           const std::function<void(std::int64_t, std::int64_t)>& work) {
  for (auto i = tasks - 1; i >= 0; --i) work(i, i + 1);
}

void in_three_threads(std::int64_t tasks, std::int64_t /*grain*/,
                      const std::function<void(std::int64_t, std::int64_t)>& work) {
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { work(tasks * i / 3, tasks * (i + 1) / 3); });
  }
  for (auto& thread : threads) thread.join();
}

std::vector<float> random_values(std::size_t count, std::uint64_t seed, float mean = 0.0F,
                                 float deviation = 1.0F) {
  std::vector<float> values(count);
  for (auto& value : values) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    value = mean + deviation * (static_cast<float>(seed >> 40) / 8388608.0F - 1.0F);
  }
  return values;
}

enum class Form { Norm, NormRelu, NormAddRelu };

/// All that a layer is given, and all that it gives.
struct Case {
  Case(const Shape& shape_, Form form_, float mean = 0.3F, float deviation = 1.7F)
      : shape(shape_), form(form_), channels(static_cast<std::size_t>(shape.channels)) {
    const auto count = static_cast<std::size_t>(shape.rows) * channels;
    x = random_values(count, 1, mean, deviation);
    residual = random_values(count, 2);
    dy = random_values(count, 3);
    weight = random_values(channels, 4, 1.0F, 0.9F);
    bias = random_values(channels, 5, 0.0F, 0.5F);
    running_mean = random_values(channels, 6);
    running_variance = random_values(channels, 7, 1.0F, 0.5F);
    y.resize(count);
    dx.resize(count);
    dz.resize(count);
    normalization.resize(4 * channels);
    dweight.resize(channels);
    dbias.resize(channels);
  }

  Normalization normalized() {
    auto* begin = normalization.data();
    return {begin, begin + channels, begin + 2 * channels, begin + 3 * channels};
  }
  Gate gate() const {
    if (form == Form::Norm) return Gate::Open;
    return form == Form::NormRelu ? Gate::Input : Gate::Output;
  }
  bool adds() const { return form == Form::NormAddRelu; }

  void run(const Parallel& parallel = alone) {
    const Parameters parameters{weight.data(),           bias.data(), running_mean.data(),
                                running_variance.data(), 0.1,         1e-5};
    take_statistics(shape, x.data(), parameters, normalized(), parallel);
    apply(shape, x.data(), adds() ? residual.data() : nullptr, normalized().scale,
          normalized().offset, form == Form::Norm ? Activation::None : Activation::Relu, y.data(),
          parallel);
    backward(shape, {dy.data(), nullptr, x.data(), y.data(), gate()}, normalized(),
             {dx.data(), adds() ? dz.data() : nullptr, dweight.data(), dbias.data()}, parallel);
  }

  /// Everything that comes out.
  std::vector<std::vector<float>> results() const {
    return {y, dx, dz, normalization, dweight, dbias, running_mean, running_variance};
  }

  Shape shape;
  Form form;
  std::size_t channels;
  std::vector<float> x, residual, dy, weight, bias, running_mean, running_variance;
  std::vector<float> y, dx, dz, normalization, dweight, dbias;
};

std::string name_of(const Case& one) {
  return std::to_string(one.shape.rows) + " x " + std::to_string(one.shape.channels) + ", form " +
         std::to_string(static_cast<int>(one.form));
}

bool are_same_bits(const std::vector<std::vector<float>>& left,
                   const std::vector<std::vector<float>>& right) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::memcmp(left[i].data(), right[i].data(), left[i].size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

template <typename Function>
void for_cases(const Function& function) {
  for (const auto& shape : kShapes) {
    for (const auto form : {Form::Norm, Form::NormRelu, Form::NormAddRelu}) {
      function(Case(shape, form));
    }
  }
}

/// The same in f64, one channel at a time, as the textbook has it.
class Reference {
 public:
  Reference(const Case& one, std::size_t channel) : one_(one), channel_(channel) {
    const auto count = static_cast<double>(one.shape.rows);
    for (std::size_t r = 0; r < rows(); ++r) mean += at(one.x, r) / count;
    for (std::size_t r = 0; r < rows(); ++r) variance += std::pow(at(one.x, r) - mean, 2) / count;
    inverse_deviation = 1.0 / std::sqrt(variance + 1e-5);
    for (std::size_t r = 0; r < rows(); ++r) {
      dbias += dz(r);
      dweight += dz(r) * normalized(r);
    }
  }

  std::size_t rows() const { return static_cast<std::size_t>(one_.shape.rows); }
  double at(const std::vector<float>& values, std::size_t row) const {
    return values[row * one_.channels + channel_];
  }
  double normalized(std::size_t row) const { return (at(one_.x, row) - mean) * inverse_deviation; }
  double y(std::size_t row) const {
    const auto z = normalized(row) * one_.weight[channel_] + one_.bias[channel_] +
                   (one_.adds() ? at(one_.residual, row) : 0.0);
    return one_.form != Form::Norm && z < 0.0 ? 0.0 : z;
  }
  /// Behind the gate of the kernel: at its edge, f32 and f64 may stand on different sides.
  double dz(std::size_t row) const {
    return one_.form != Form::Norm && at(one_.y, row) <= 0.0 ? 0.0 : at(one_.dy, row);
  }
  double dx(std::size_t row) const {
    const auto count = static_cast<double>(one_.shape.rows);
    return one_.weight[channel_] * inverse_deviation *
           (dz(row) - dbias / count - normalized(row) * dweight / count);
  }

  double mean = 0.0;
  double variance = 0.0;
  double inverse_deviation = 0.0;
  double dweight = 0.0;
  double dbias = 0.0;

 private:
  const Case& one_;
  std::size_t channel_;
};

TEST(BatchNormKernelsTest, AgreeWithAPlainReferenceInF64) {
  for_cases([](Case one) {
    SCOPED_TRACE(name_of(one));
    const auto before = one;
    one.run();
    const auto count = static_cast<double>(one.shape.rows);
    for (std::size_t c = 0; c < one.channels; ++c) {
      const Reference reference(one, c);
      ASSERT_NEAR(one.normalized().mean[c], reference.mean, 2e-6);
      ASSERT_NEAR(one.normalized().inverse_deviation[c] / reference.inverse_deviation, 1.0, 1e-5);
      const auto unbiased = reference.variance * count / (count - 1.0);
      ASSERT_NEAR(one.running_mean[c], 0.9 * before.running_mean[c] + 0.1 * reference.mean, 1e-6);
      ASSERT_NEAR(one.running_variance[c], 0.9 * before.running_variance[c] + 0.1 * unbiased, 2e-6);
      ASSERT_NEAR(one.dweight[c], reference.dweight, 1e-5 * (std::sqrt(count) + 1.0));
      ASSERT_NEAR(one.dbias[c], reference.dbias, 1e-5 * (std::sqrt(count) + 1.0));
      // Two rows that lie close together make a large scale.
      const auto tolerance = 2e-5 * std::max(1.0, reference.inverse_deviation);
      for (std::size_t r = 0; r < reference.rows(); ++r) {
        ASSERT_NEAR(reference.at(one.y, r), reference.y(r), tolerance) << "row " << r;
        ASSERT_NEAR(reference.at(one.dx, r), reference.dx(r), tolerance) << "row " << r;
        ASSERT_EQ(reference.at(one.dz, r), one.adds() ? reference.dz(r) : 0.0) << "row " << r;
      }
    }
  });
}

/// Calls `function(name)` once for each vector unit of this machine, with it alone to choose.
template <typename Function>
void for_units(const Function& function) {
  for (auto left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    function(std::string(hwy::TargetName(left & -left)));
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(BatchNormKernelsTest, GiveTheSameBitsWithEveryVectorUnit) {
  std::vector<std::vector<std::vector<float>>> first;
  int units = 0;
  for_units([&](const std::string& unit) {
    std::size_t i = 0;
    for_cases([&](Case one) {
      one.run();
      if (units == 0) {
        first.push_back(one.results());
      } else {
        EXPECT_TRUE(are_same_bits(one.results(), first[i])) << unit << ", " << name_of(one);
      }
      ++i;
    });
    ++units;
  });
  EXPECT_GE(units, std::min(2, std::popcount(static_cast<std::uint64_t>(HWY_TARGETS))));
}

TEST(BatchNormKernelsTest, JoinTwoGradientsAsIfTheyHadBeenAddedBefore) {
  for_units([](const std::string& unit) {
    for_cases([&](const Case& one) {
      if (!one.adds()) return;
      auto first = one.dy;
      auto second = random_values(first.size(), 8);
      auto added = one;
      for (std::size_t i = 0; i < first.size(); ++i) added.dy[i] = first[i] + second[i];
      added.run();
      auto joined = added;
      // Each gradient that leaves takes the memory of one that arrives.
      backward(one.shape, {first.data(), second.data(), one.x.data(), added.y.data(), one.gate()},
               joined.normalized(),
               {second.data(), first.data(), joined.dweight.data(), joined.dbias.data()}, alone);
      EXPECT_EQ(first, added.dz) << unit << ", " << name_of(one);
      EXPECT_EQ(second, added.dx) << unit << ", " << name_of(one);
      EXPECT_EQ(joined.dweight, added.dweight) << unit << ", " << name_of(one);
      EXPECT_EQ(joined.dbias, added.dbias) << unit << ", " << name_of(one);
    });
  });
}

TEST(BatchNormKernelsTest, GiveTheSameBitsHoweverTheWorkIsDivided) {
  for_cases([](const Case& one) {
    auto first = one;
    first.run();
    for (const Parallel& parallel : {Parallel(apart), Parallel(in_three_threads)}) {
      auto other = one;
      other.run(parallel);
      EXPECT_TRUE(are_same_bits(other.results(), first.results())) << name_of(one);
    }
  });
}

TEST(BatchNormKernelsTest, GiveTheSameBitsAtEveryAlignment) {
  Case one({333, 17}, Form::NormRelu);
  one.run();
  for (std::size_t shift = 1; shift < 16; ++shift) {
    std::vector<float> x(one.x.size() + shift);
    std::vector<float> y(one.y.size() + shift + 1, -5.0F);
    std::copy(one.x.begin(), one.x.end(), x.begin() + static_cast<std::ptrdiff_t>(shift));
    apply(one.shape, x.data() + shift, nullptr, one.normalized().scale, one.normalized().offset,
          Activation::Relu, y.data() + shift, alone);
    EXPECT_EQ(std::memcmp(y.data() + shift, one.y.data(), one.y.size() * sizeof(float)), 0);
    EXPECT_EQ(y[shift - 1], -5.0F);
    EXPECT_EQ(y.back(), -5.0F);
  }
}

TEST(BatchNormKernelsTest, WriteAGradientIntoTheMemoryOfTheOneThatArrives) {
  for_cases([](const Case& one) {
    auto apart_from_it = one;
    apart_from_it.run();
    auto in_place = apart_from_it;
    auto& dy = in_place.dy;
    const bool adds = one.adds();
    backward(one.shape, {dy.data(), nullptr, in_place.x.data(), in_place.y.data(), one.gate()},
             in_place.normalized(),
             {adds ? in_place.dx.data() : dy.data(), adds ? dy.data() : nullptr,
              in_place.dweight.data(), in_place.dbias.data()},
             alone);
    EXPECT_EQ(dy, adds ? apart_from_it.dz : apart_from_it.dx) << name_of(one);
    EXPECT_EQ(in_place.dx, apart_from_it.dx) << name_of(one);
  });
}

TEST(BatchNormKernelsTest, NeedNoMemoryForAGradientThatIsNotWanted) {
  Case one({500, 24}, Form::NormAddRelu);
  one.run();
  auto other = one;
  // Without the residual's gradient the gate is asked twice.
  std::fill(other.dx.begin(), other.dx.end(), 0.0F);
  backward(one.shape, {one.dy.data(), nullptr, one.x.data(), one.y.data(), Gate::Output},
           one.normalized(), {other.dx.data(), nullptr, nullptr, nullptr}, alone);
  EXPECT_EQ(other.dx, one.dx);
  backward(one.shape, {one.dy.data(), nullptr, one.x.data(), one.y.data(), Gate::Output},
           one.normalized(), {nullptr, nullptr, other.dweight.data(), other.dbias.data()}, alone);
  EXPECT_EQ(other.dweight, one.dweight);
  EXPECT_EQ(other.dbias, one.dbias);
}

TEST(BatchNormKernelsTest, KeepTheVarianceWhereTheMeanIsLarge) {
  // Squares of 1000 in f32 have steps of 0.06: without a shift nothing would be left of 0.0033.
  Case one({20000, 16}, Form::Norm, 1000.0F, 0.1F);
  one.run();
  for (std::size_t c = 0; c < one.channels; ++c) {
    const Reference reference(one, c);
    EXPECT_NEAR(one.normalized().inverse_deviation[c] / reference.inverse_deviation, 1.0, 1e-5);
    EXPECT_NEAR(one.normalized().mean[c], reference.mean, 6e-5);
  }
}

TEST(BatchNormKernelsTest, KeepTheVarianceWhereTheFirstRowLiesFarOff) {
  Case one({20000, 3}, Form::Norm, 0.0F, 1.0F);
  for (std::size_t c = 0; c < 3; ++c) one.x[c] = 1000.0F;
  one.run();
  for (std::size_t c = 0; c < 3; ++c) {
    const Reference reference(one, c);
    EXPECT_NEAR(one.normalized().inverse_deviation[c] / reference.inverse_deviation, 1.0, 1e-4);
  }
}

TEST(BatchNormKernelsTest, HaveNoNegativeVariance) {
  Case one({1000, 5}, Form::Norm);
  std::fill(one.x.begin(), one.x.end(), 0.1F);
  one.run();
  for (std::size_t c = 0; c < 5; ++c) {
    EXPECT_NEAR(one.normalized().inverse_deviation[c], 1.0 / std::sqrt(1e-5), 0.1);
  }
}

TEST(BatchNormKernelsTest, NanAndInfinityStayInTheirChannel) {
  for (const auto bad : {kNan, kInfinity, -kInfinity}) {
    for (const auto row : {0U, 100U, 999U}) {
      Case one({1000, 17}, Form::NormRelu);
      auto good = one;
      good.run();
      one.x[row * 17 + 16] = bad;
      one.run();
      for (std::size_t i = 0; i < one.y.size(); ++i) {
        if (i % 17 == 16) {
          ASSERT_TRUE(std::isnan(one.y[i])) << i;
          ASSERT_TRUE(std::isnan(one.dx[i])) << i;
        } else {
          ASSERT_EQ(one.y[i], good.y[i]) << i;
        }
      }
    }
  }
}

TEST(BatchNormKernelsTest, AReluKeepsNanAndLetsItsGradientPass) {
  const std::vector<float> x{kNan, -1.0F, -0.0F, 2.0F, kInfinity};
  const std::vector<float> dy{1.0F, 2.0F, 3.0F, 4.0F, 5.0F};
  const std::vector<float> one(1, 1.0F), zero(1, 0.0F);
  std::vector<float> y(5), dz(5), sink(1);
  apply({5, 1}, x.data(), nullptr, one.data(), zero.data(), Activation::Relu, y.data(), alone);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0.0F);
  EXPECT_EQ(y[3], 2.0F);
  EXPECT_EQ(y[4], kInfinity);
  auto mean = zero, inverse = one, scale = one, offset = zero;
  backward({5, 1}, {dy.data(), nullptr, x.data(), y.data(), Gate::Output},
           {mean.data(), inverse.data(), scale.data(), offset.data()},
           {nullptr, dz.data(), nullptr, sink.data()}, alone);
  EXPECT_THAT(dz, ::testing::ElementsAre(1.0F, 0.0F, 0.0F, 4.0F, 5.0F));
}

TEST(WalkTest, DependsOnTheShapeAloneAndCoversTheMatrix) {
  for (const auto& shape : kShapes) {
    const kernels::Walk walk(shape.rows, shape.channels);
    EXPECT_EQ(walk.size, shape.rows * shape.channels);
    EXPECT_EQ(walk.width % shape.channels, 0);
    EXPECT_EQ(walk.chunk_size % (walk.width * walk.block_lines), 0);
    std::int64_t covered = 0;
    for (std::int64_t i = 0; i < walk.chunks; ++i) {
      EXPECT_EQ(walk.begin(i), covered);
      EXPECT_GT(walk.size_of(i), 0);
      covered += walk.size_of(i);
    }
    EXPECT_EQ(covered, walk.size);
    EXPECT_LE(walk.chunks, 64);
  }
}

}  // namespace
}  // namespace lockstep::nn::batch_norm
