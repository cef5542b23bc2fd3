#include "lockstep/optimizer/update_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "lockstep/base/half.h"
#include "lockstep/optimizer/step_rules.h"
#include "tests/support/errors.h"

namespace lockstep::optimizer {
namespace {

using Floats = std::vector<float>;
using testing::expect_error;

constexpr float kGradientScale = 0.75F;
constexpr double kTrust = 1.75;
constexpr UpdateFacts kFacts{
    .parameter = "conv1.weight", .lr = 0.05, .weight_decay = 0.02, .count = 7};

Floats random_floats(std::size_t count, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  Floats values(count);
  for (auto& value : values) value = distribution(generator);
  return values;
}

/// The rows of a slice, with memory for the next ones.
struct Rows {
  explicit Rows(std::size_t count)
      : gradient(random_floats(count, 1)),
        weights(random_floats(count, 2)),
        state{random_floats(count, 3), random_floats(count, 4, 0, 1)},
        next_weights(count),
        next_state{Floats(count), Floats(count)} {}

  Slice slice(std::size_t begin, std::size_t count) {
    return {.gradient = std::span(gradient).subspan(begin, count),
            .weights = std::span(weights).subspan(begin, count),
            .next_weights = std::span(next_weights).subspan(begin, count),
            .state = {std::span(state[0]).subspan(begin, count),
                      std::span(state[1]).subspan(begin, count)},
            .next_state = {std::span(next_state[0]).subspan(begin, count),
                           std::span(next_state[1]).subspan(begin, count)}};
  }
  Slice slice() { return slice(0, weights.size()); }

  /// Everything that was written, one behind the other.
  Floats written() const {
    auto all = next_weights;
    for (const auto& row : next_state) all.insert(all.end(), row.begin(), row.end());
    return all;
  }

  Floats gradient, weights;
  std::array<Floats, 2> state;
  Floats next_weights;
  std::array<Floats, 2> next_state;
};

bool same_bits(const Floats& left, const Floats& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

/// What one element becomes, in double.
struct Element {
  double gradient, weight, first, second;
};

Element sgd_reference(const Optimizer& optimizer, Element now) {
  const auto& options = optimizer.sgd();
  const auto gradient = now.gradient * kGradientScale + kFacts.weight_decay * now.weight;
  if (options.momentum == 0) {
    return {.gradient = 0, .weight = now.weight - kFacts.lr * gradient, .first = 0, .second = 0};
  }
  const auto momentum = options.momentum * now.first + gradient;
  const auto direction = options.nesterov ? gradient + options.momentum * momentum : momentum;
  return {
      .gradient = 0, .weight = now.weight - kFacts.lr * direction, .first = momentum, .second = 0};
}

Element adam_reference(const Optimizer& optimizer, Element now) {
  const auto& options = optimizer.adam();
  const auto count = static_cast<double>(kFacts.count);
  auto gradient = now.gradient * kGradientScale;
  if (optimizer.kind() == OptimizerKind::Adam) gradient += kFacts.weight_decay * now.weight;
  const auto first = options.beta1 * now.first + (1 - options.beta1) * gradient;
  const auto second = options.beta2 * now.second + (1 - options.beta2) * gradient * gradient;
  const auto corrected_first = first / (1 - std::pow(options.beta1, count));
  const auto corrected_second = second / (1 - std::pow(options.beta2, count));
  auto direction = corrected_first / (std::sqrt(corrected_second) + options.epsilon);
  if (optimizer.kind() != OptimizerKind::Adam) direction += kFacts.weight_decay * now.weight;
  if (optimizer.kind() == OptimizerKind::Lamb) direction *= kTrust;
  return {.gradient = 0,
          .weight = now.weight - kFacts.lr * direction,
          .first = first,
          .second = second};
}

struct Case {
  const char* name;
  Optimizer optimizer;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

class UpdateTest : public ::testing::TestWithParam<Case> {
 protected:
  const Optimizer& optimizer() const { return GetParam().optimizer; }
  void step(const Slice& slice) const {
    update(optimizer(), slice, kFacts, kGradientScale, kTrust);
  }
};

INSTANTIATE_TEST_SUITE_P(
    All, UpdateTest,
    ::testing::Values(Case{"Sgd", SGD()}, Case{"Momentum", SGD({.momentum = 0.9})},
                      Case{"Nesterov", SGD({.momentum = 0.8, .nesterov = true})},
                      Case{"Adam", Adam({.beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6})},
                      Case{"AdamW", AdamW({.beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6})},
                      Case{"Lamb", LAMB({.beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6})}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_P(UpdateTest, ComputesWhatItsFormulaSays) {
  Rows rows(1001);
  step(rows.slice());
  for (std::size_t i = 0; i < rows.weights.size(); ++i) {
    const Element now{.gradient = rows.gradient[i],
                      .weight = rows.weights[i],
                      .first = rows.state[0][i],
                      .second = rows.state[1][i]};
    const auto next = optimizer().kind() == OptimizerKind::Sgd ? sgd_reference(optimizer(), now)
                                                               : adam_reference(optimizer(), now);
    // Weights, gradients and states are of the size of 1, so a few roundings are a few 1e-7.
    ASSERT_NEAR(rows.next_weights[i], next.weight, 5e-7) << i;
    ASSERT_NEAR(rows.next_state[0][i], next.first, 5e-7) << i;
    ASSERT_NEAR(rows.next_state[1][i], next.second, 5e-7) << i;
  }
}

TEST_P(UpdateTest, GivesAnElementTheSameBitsWhereverItStands) {
  Rows whole(301);
  step(whole.slice());
  for (std::size_t first_cut = 0; first_cut < 40; ++first_cut) {
    for (std::size_t length : {1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 65, 101}) {
      Rows cut(301);
      step(cut.slice(0, first_cut));
      step(cut.slice(first_cut, length));
      step(cut.slice(first_cut + length, 301 - first_cut - length));
      ASSERT_TRUE(same_bits(cut.written(), whole.written())) << first_cut << " + " << length;
    }
  }
}

TEST_P(UpdateTest, MayWriteOverWhatItReads) {
  Rows apart(100);
  step(apart.slice());
  Rows in_place(100);
  auto slice = in_place.slice();
  slice.next_weights = in_place.weights;
  slice.next_state = {in_place.state[0], in_place.state[1]};
  step(slice);
  EXPECT_TRUE(same_bits(in_place.weights, apart.next_weights));
  for (int i = 0; i < optimizer().num_states(); ++i) {
    EXPECT_TRUE(same_bits(in_place.state[i], apart.next_state[i]));
  }
}

TEST_P(UpdateTest, RefusesRowsOfOtherLengths) {
  const auto expect_bug = [&](auto shorten, const std::string& text) {
    Rows rows(8);
    auto slice = rows.slice();
    shorten(slice);
    expect_error([&] { step(slice); }, ErrorKind::Bug,
                 std::string(optimizer().name()) + ": expected " + text);
  };
  expect_bug([](Slice& slice) { slice.gradient = slice.gradient.first(7); },
             "a gradient of 8 elements, found 7");
  expect_bug([](Slice& slice) { slice.next_weights = {}; }, "next weights of 8 elements, found 0");
  for (std::size_t i = 0; i < static_cast<std::size_t>(optimizer().num_states()); ++i) {
    expect_bug([i](Slice& slice) { slice.state[i] = {}; }, "a state of 8 elements, found 0");
    expect_bug([i](Slice& slice) { slice.next_state[i] = {}; },
               "a next state of 8 elements, found 0");
  }
}

/// One element that is updated again and again.
struct Single {
  float gradient = 0;
  float weight = 0;
  float first = 0;
  float second = 0;

  void step(const Optimizer& optimizer, const UpdateFacts& facts, double trust = 1) {
    update(optimizer,
           {.gradient = {&gradient, 1},
            .weights = {&weight, 1},
            .next_weights = {&weight, 1},
            .state = {std::span<const float>{&first, 1}, std::span<const float>{&second, 1}},
            .next_state = {std::span{&first, 1}, std::span{&second, 1}}},
           facts, 1.0F, trust);
  }
};

TEST(SgdTest, MomentumOfAConstantGradientIsAGeometricSeries) {
  Single single{.gradient = 1, .weight = 100};
  double expected = 100;
  for (int k = 1; k <= 20; ++k) {
    single.step(SGD({.momentum = 0.5}), {.lr = 1, .count = k});
    EXPECT_EQ(single.first, 2 - std::pow(2, 1 - k)) << "exact in f32";
    expected -= single.first;
    EXPECT_NEAR(single.weight, expected, 1e-4);
  }
}

TEST(SgdTest, ExactNumbersGiveExactWeights) {
  Single plain{.gradient = 2, .weight = 4};
  plain.step(SGD(), {.lr = 0.5, .weight_decay = 0.25});
  EXPECT_EQ(plain.weight, 4 - 0.5 * (2 + 0.25 * 4));
  Single nesterov{.gradient = 2, .weight = 4, .first = 8};
  nesterov.step(SGD({.momentum = 0.5, .nesterov = true}), {.lr = 0.5});
  EXPECT_EQ(nesterov.first, 0.5 * 8 + 2);
  EXPECT_EQ(nesterov.weight, 4 - 0.5 * (2 + 0.5 * 6));
}

TEST(AdamTest, TheFirstStepsAreAsLongAsTheLearningRate) {
  // With a constant gradient, corrected moments are the gradient and its square.
  for (const auto& optimizer : {Adam(), AdamW(), LAMB()}) {
    for (const float gradient : {1e-3F, -0.5F, 40.0F}) {
      Single single{.gradient = gradient, .weight = 1};
      for (int k = 1; k <= 10; ++k) {
        single.step(optimizer, {.lr = 0.01, .count = k});
        EXPECT_NEAR(single.weight, 1 - std::copysign(0.01 * k, gradient), 2e-6 * k);
      }
    }
  }
}

TEST(AdamTest, AdamWShrinksWeightsWithoutAGradientWhereAdamTurnsTheDecayIntoOne) {
  Single adamw{.weight = 8};
  adamw.step(AdamW(), {.lr = 0.5, .weight_decay = 0.25});
  EXPECT_EQ(adamw.weight, 7);
  Single adam{.weight = 8};
  adam.step(Adam(), {.lr = 0.5, .weight_decay = 0.25});
  EXPECT_NEAR(adam.weight, 7.5, 1e-6);
  Single lamb{.weight = 8};
  lamb.step(LAMB(), {.lr = 0.5, .weight_decay = 0.25}, 2);
  EXPECT_EQ(lamb.weight, 8 - 0.5 * 2 * 0.25 * 8);
}

TEST(LambTest, TrustSumsAreThoseOfTheStepThatFollows) {
  // 2600: more than two chunks of directions, and a rest.
  for (const std::size_t count : {1, 15, 16, 100, 1024, 2600}) {
    Rows rows(count);
    const auto optimizer = LAMB();
    const auto sums = trust_sums(optimizer, rows.slice(), kFacts, kGradientScale);
    update(optimizer, rows.slice(), kFacts, kGradientScale, 1);
    double weights = 0, direction = 0;
    for (std::size_t i = 0; i < count; ++i) {
      weights += std::pow(rows.weights[i], 2.0);
      direction += std::pow((rows.weights[i] - rows.next_weights[i]) / kFacts.lr, 2.0);
    }
    EXPECT_NEAR(sums.weights, weights, 1e-12 * weights);
    EXPECT_NEAR(sums.direction, direction, 1e-4 * direction);
  }
}

TEST(LambTest, AStepIsAsLongAsTheWeightsTimesTheLearningRate) {
  Rows rows(5000);
  const auto optimizer = LAMB({.weight_decay = 0.1});
  const auto sums = trust_sums(optimizer, rows.slice(), kFacts, 1);
  update(optimizer, rows.slice(), kFacts, 1, StepRules::trust_ratio(sums.weights, sums.direction));
  double length = 0;
  for (std::size_t i = 0; i < rows.weights.size(); ++i) {
    length += std::pow(rows.weights[i] - rows.next_weights[i], 2.0);
  }
  EXPECT_NEAR(std::sqrt(length), kFacts.lr * std::sqrt(sums.weights), 1e-5 * std::sqrt(length));
}

TEST(LambTest, TheRatioIsOneWhereEitherNormIsZero) {
  EXPECT_EQ(StepRules::trust_ratio(9, 4), 1.5);
  EXPECT_EQ(StepRules::trust_ratio(0, 4), 1);
  EXPECT_EQ(StepRules::trust_ratio(9, 0), 1);
}

TEST(LambTest, OnlyLambHasTrustSums) {
  Rows rows(3);
  expect_error([&] { trust_sums(AdamW(), rows.slice(), kFacts, 1); }, ErrorKind::Bug,
               "trust sums: expected LAMB, found AdamW");
  auto slice = rows.slice();
  slice.state[1] = {};
  expect_error([&] { trust_sums(LAMB(), slice, kFacts, 1); }, ErrorKind::Bug,
               "LAMB: expected a state of 3 elements, found 0");
}

/// Its state is the sum of gradients, and its weights follow that.
void add_up(const Slice& slice, const UpdateFacts& facts) {
  for (std::size_t i = 0; i < slice.weights.size(); ++i) {
    slice.next_state[0][i] = slice.state[0][i] + slice.gradient[i];
    slice.next_weights[i] =
        slice.weights[i] - static_cast<float>(facts.lr) * slice.next_state[0][i];
  }
}

TEST(CustomTest, GetsScaledGradientsAndWritesEveryElement) {
  const auto optimizer = custom_optimizer({.num_states = 1, .update = add_up});
  for (const float scale : {0.25F, 1.0F}) {
    Rows rows(5001);
    auto slice = rows.slice();
    slice.state[1] = {};
    slice.next_state[1] = {};
    update(optimizer, slice, {.lr = 0.5}, scale, 1);
    for (std::size_t i = 0; i < rows.weights.size(); ++i) {
      const auto sum = rows.state[0][i] + scale * rows.gradient[i];
      ASSERT_EQ(rows.next_state[0][i], sum) << i;
      ASSERT_EQ(rows.next_weights[i], rows.weights[i] - 0.5F * sum) << i;
    }
  }
}

TEST(CustomTest, IsToldWhatItUpdates) {
  std::size_t elements = 0;
  const auto look = [&](const Slice& slice, const UpdateFacts& facts) {
    EXPECT_EQ(facts.parameter, "conv1.weight");
    EXPECT_EQ(facts.lr, 0.05);
    EXPECT_EQ(facts.weight_decay, 0.02);
    EXPECT_EQ(facts.count, 7);
    EXPECT_EQ(slice.gradient.size(), slice.weights.size());
    EXPECT_EQ(slice.next_weights.size(), slice.weights.size());
    EXPECT_TRUE(slice.state[0].empty());
    elements += slice.weights.size();
  };
  Rows rows(3000);
  auto slice = rows.slice();
  slice.state = {};
  slice.next_state = {};
  update(custom_optimizer({.update = look}), slice, kFacts, 0.5F, 1);
  EXPECT_EQ(elements, 3000U);
}

TEST(CustomTest, RefusesRowsOfOtherLengths) {
  Rows rows(4);
  auto slice = rows.slice();
  slice.next_state[0] = {};
  const auto optimizer = custom_optimizer({.num_states = 1, .update = add_up});
  expect_error([&] { update(optimizer, slice, kFacts, 1, 1); }, ErrorKind::Bug,
               "custom: expected a next state of 4 elements, found 0");
}

/// The order that is promised: sixteen sums side by side, then halves onto halves.
double sum_in_order(const Floats& values) {
  std::array<double, 16> sums{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[i % 16] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  for (std::size_t left = 8; left > 0; left /= 2) {
    for (std::size_t i = 0; i < left; ++i) sums[i] += sums[i + left];
  }
  return sums[0];
}

TEST(SumOfSquaresTest, GoesInAnOrderThatTheLengthDecides) {
  const auto values = random_floats(3000, 5, -1e10F, 1e10F);
  for (std::size_t count : {0, 1, 2, 15, 16, 17, 31, 32, 33, 255, 1000, 2999}) {
    for (std::size_t begin = 0; begin < std::min<std::size_t>(3000 - count, 4); ++begin) {
      const Floats part(&values[begin], &values[begin] + count);
      EXPECT_EQ(sum_of_squares(std::span(values).subspan(begin, count)), sum_in_order(part));
    }
  }
}

TEST(SumOfSquaresTest, HoldsWhatF32CannotHold) {
  EXPECT_EQ(sum_of_squares(Floats{3, -4}), 25);
  EXPECT_EQ(sum_of_squares(Floats{1e30F}), static_cast<double>(1e30F) * static_cast<double>(1e30F));
  EXPECT_GT(sum_of_squares(Floats{1e-40F}), 0);
  EXPECT_TRUE(std::isnan(sum_of_squares(Floats{1, std::numeric_limits<float>::quiet_NaN()})));
}

TEST(CountNotFiniteTest, CountsInfinitiesAndNans) {
  const auto infinity = std::numeric_limits<float>::infinity();
  Floats values(1000, std::numeric_limits<float>::max());
  values[0] = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(count_not_finite(values), 0);
  EXPECT_EQ(count_not_finite({}), 0);
  values[3] = infinity;
  values[500] = -infinity;
  values[998] = std::numeric_limits<float>::quiet_NaN();
  values[999] = std::bit_cast<float>(0xff800001U);
  EXPECT_EQ(count_not_finite(values), 4);
  EXPECT_EQ(count_not_finite(std::span(values).subspan(3, 1)), 1);
  EXPECT_EQ(count_not_finite(Floats(77, -infinity)), 77);
}

/// Every exponent, with mantissas about the places where rounding turns.
Floats interesting_floats() {
  Floats values{65504.0F, 65519.9F, 65520.0F, 65536.0F};
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const std::uint32_t mantissa : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x2fffU, 0x3000U,
                                         0x7fffU, 0x8000U, 0x8001U, 0x18000U, 0x7fffffU}) {
      values.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
      values.push_back(-values.back());
    }
  }
  return values;
}

void expect_same(float found, float expected) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found));
  } else {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(expected));
  }
}

TEST(RoundLeafTest, RoundsEachValueOnceAndDividesIt) {
  const auto values = interesting_floats();
  for (const float scale : {1.0F, 1024.0F, 0.5F}) {
    Floats half(values.size()), bhalf(values.size()), single(values.size());
    round_leaf(DataType::F16, scale, values, half);
    round_leaf(DataType::BF16, scale, values, bhalf);
    round_leaf(DataType::F32, scale, values, single);
    for (std::size_t i = 0; i < values.size(); ++i) {
      expect_same(half[i], to_float(to_float16(values[i])) / scale);
      expect_same(bhalf[i], to_float(to_bfloat16(values[i])) / scale);
      expect_same(single[i], values[i] / scale);
    }
  }
}

TEST(RoundLeafTest, TiesGoToEven) {
  // F16 has 11 bits and BF16 has 8: halfway between neighbours above 1.
  Floats values{1 + 0x1p-11F, 1 + 0x3p-11F, 65520.0F, 1 + 0x1p-8F, 1 + 0x3p-8F};
  Floats rounded(5);
  round_leaf(DataType::F16, 2, values, rounded);
  EXPECT_EQ(rounded[0], 0.5F);
  EXPECT_EQ(rounded[1], 0.5F + 0x1p-10F);
  EXPECT_EQ(rounded[2], std::numeric_limits<float>::infinity());
  round_leaf(DataType::BF16, 2, values, values);
  EXPECT_EQ(values[3], 0.5F) << "and in place";
  EXPECT_EQ(values[4], 0.5F + 0x1p-7F);
  EXPECT_EQ(values[2], 32768.0F);
}

TEST(RowTest, ScalesDividesAndAverages) {
  Floats values{3, -6, 9};
  scale(0.5F, values);
  EXPECT_EQ(values, (Floats{1.5F, -3, 4.5F}));
  divide(3, values);
  EXPECT_EQ(values, (Floats{0.5F, -1, 1.5F}));
  average(0.75, values, Floats{8, 4, -2}, values);
  EXPECT_EQ(values, (Floats{2.375F, 0.25F, 0.625F}));
}

TEST(RowTest, RefusesRowsOfOtherLengths) {
  Floats three(3), four(4);
  expect_error([&] { average(0.5, three, four, four); }, ErrorKind::Bug,
               "average: expected an average of 4 elements, found 3");
  expect_error([&] { average(0.5, four, four, three); }, ErrorKind::Bug,
               "average: expected a next average of 4 elements, found 3");
  expect_error([&] { round_leaf(DataType::F16, 1, three, four); }, ErrorKind::Bug,
               "round leaf: expected room of 3 elements, found 4");
}

/// All that kernels say about some rows, at an odd beginning.
std::vector<double> everything() {
  Rows rows(1237);
  const auto slice = rows.slice(3, 1234);
  std::vector<double> all;
  for (const auto& optimizer :
       {SGD(), SGD({.momentum = 0.9}), SGD({.momentum = 0.9, .nesterov = true}), Adam(), AdamW(),
        LAMB()}) {
    update(optimizer, slice, kFacts, kGradientScale, kTrust);
    const auto written = rows.written();
    all.insert(all.end(), written.begin(), written.end());
  }
  const auto sums = trust_sums(LAMB(), slice, kFacts, kGradientScale);
  all.insert(all.end(), {sums.weights, sums.direction, sum_of_squares(slice.gradient)});
  all.push_back(static_cast<double>(count_not_finite(interesting_floats())));
  average(0.9, slice.weights, slice.gradient, slice.next_weights);
  all.insert(all.end(), rows.next_weights.begin(), rows.next_weights.end());
  for (const auto type : {DataType::F16, DataType::BF16, DataType::F32}) {
    round_leaf(type, 8, slice.gradient, slice.next_weights);
    scale(0.7F, slice.next_weights);
    divide(0.3F, slice.next_weights);
    all.insert(all.end(), rows.next_weights.begin(), rows.next_weights.end());
  }
  return all;
}

TEST(KernelsTest, GiveTheSameBitsWithEveryVectorUnit) {
  std::vector<double> first;
  int units = 0;
  for (auto left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1, ++units) {
    // Highway takes the best of a set; a single one leaves it no choice.
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const auto all = everything();
    if (units == 0) first = all;
    EXPECT_TRUE(all == first) << hwy::TargetName(left & -left);
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  RecordProperty("units", units);
  EXPECT_GE(units, std::min(2, std::popcount(static_cast<std::uint64_t>(HWY_TARGETS))))
      << "where more than one is compiled, at least the plain code and one vector unit";
}

}  // namespace
}  // namespace lockstep::optimizer
