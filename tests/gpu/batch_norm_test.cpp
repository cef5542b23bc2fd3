#include "lockstep/gpu/layers/batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/gpu/layers/batch_norm_paths.h"
#include "tests/gpu/norm_reference.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

constexpr NormChip kHopper{.compute_major = 9, .multiprocessors = 132};

NormShape shape_of(const NormCase& norm, DataType type) {
  return {.type = type, .groups = norm.groups, .rows = norm.rows, .channels = norm.channels};
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    return error.what();
  }
  return "it did not throw";
}

TEST(NormPathTest, TakesTheStreamingPathOnOlderChipsAndForOddChannels) {
  const NormShape shape{.type = DataType::BF16, .groups = 4, .rows = 1024, .channels = 64};
  EXPECT_EQ(choose_norm_path(shape, NormPass::Forward, {8, 108}).kind, NormPathKind::Streaming);
  EXPECT_EQ(choose_norm_path(shape, NormPass::Forward, kHopper).kind, NormPathKind::Resident);
  auto odd = shape;
  odd.channels = 60;
  EXPECT_EQ(choose_norm_path(odd, NormPass::Forward, kHopper).kind, NormPathKind::Streaming);
  odd.type = DataType::F32;
  EXPECT_EQ(choose_norm_path(odd, NormPass::Forward, kHopper).kind, NormPathKind::Resident);
}

/// Of what `gpu_batch_norm_bench` found.
TEST(NormPathTest, ChoosesWhatIsFastestOnAnH200) {
  const auto path = [](std::int64_t rows, std::int64_t channels, NormPass pass) {
    return to_string(choose_norm_path(
        {.type = DataType::BF16, .groups = 64, .rows = rows, .channels = channels}, pass, kHopper));
  };
  EXPECT_EQ(path(65536, 64, NormPass::Forward), "streaming");
  EXPECT_EQ(path(16384, 256, NormPass::Forward), "256x16 lanes 8 cluster 8");
  EXPECT_EQ(path(16384, 256, NormPass::Backward), "streaming");
  EXPECT_EQ(path(4096, 512, NormPass::Forward), "256x16 lanes 8 cluster 8");
  EXPECT_EQ(path(4096, 512, NormPass::Backward), "256x16 lanes 8 cluster 8");
  EXPECT_EQ(path(4096, 512, NormPass::BackwardOfSum), "streaming");
  EXPECT_EQ(path(1024, 1024, NormPass::Forward), "256x16 lanes 8 cluster 2");
  EXPECT_EQ(path(1024, 1024, NormPass::Backward), "256x16 lanes 8 cluster 2");
  EXPECT_EQ(path(1024, 1024, NormPass::BackwardOfSum), "streaming");
  EXPECT_EQ(path(256, 2048, NormPass::BackwardOfSum), "256x8 lanes 8 cluster 1");
}

TEST(NormPathTest, UsesMoreBlocksPerGroupWhereGroupsAreFew) {
  NormShape shape{.type = DataType::BF16, .groups = 64, .rows = 1024, .channels = 512};
  const auto many = choose_norm_path(shape, NormPass::Forward, kHopper);
  shape.groups = 1;
  EXPECT_GT(choose_norm_path(shape, NormPass::Forward, kHopper).cluster, many.cluster);
}

TEST(NormPathTest, ListsWhatAShapeCanTakeAndSaysWhatItIs) {
  const NormShape shape{.type = DataType::BF16, .groups = 1, .rows = 100, .channels = 16};
  const auto paths = resident_paths(shape, 2);
  EXPECT_EQ(paths.size(), std::size(kResidentBlocks) * 2 * 2);
  EXPECT_EQ(to_string(paths.front()), "256x4 lanes 1 cluster 1");
  EXPECT_EQ(to_string(NormPath{}), "streaming");
  EXPECT_TRUE(
      resident_paths({.type = DataType::BF16, .groups = 1, .rows = 1, .channels = 3}, 8).empty());
}

TEST(NormErrorTest, RefusesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  const NormShape shape{.groups = 1, .rows = 1, .channels = 1};
  EXPECT_THROW(norm_workspace_bytes(shape), Error);
  EXPECT_THROW(norm_forward({.shape = shape}, nullptr), Error);
  EXPECT_THROW(norm_backward({.shape = shape}, nullptr), Error);
  EXPECT_THROW(norm_evaluate({.shape = shape}, nullptr), Error);
}

TEST(NormErrorTest, RefusesWhatCannotBeNormalized) {
  if (!is_built()) GTEST_SKIP() << "this build has no CUDA";
  const auto message = [](const NormShape& shape) {
    return message_of([&] { norm_forward({.shape = shape}, nullptr); });
  };
  EXPECT_THAT(message({.groups = 2, .rows = 0, .channels = 3}),
              ::testing::HasSubstr("at least one group, row and channel, got 2 x 0 x 3"));
  EXPECT_THAT(message({.groups = 1, .rows = std::int64_t{1} << 40, .channels = 3}),
              ::testing::HasSubstr("more than"));
  EXPECT_THAT(message({.groups = 1, .rows = 2, .channels = 1 << 21}),
              ::testing::HasSubstr("more than"));
  EXPECT_THAT(message({.type = DataType::I32, .groups = 1, .rows = 2, .channels = 3}),
              ::testing::HasSubstr("got i32"));
  EXPECT_THAT(message_of([] { norm_workspace_bytes({.groups = 0, .rows = 1, .channels = 1}); }),
              ::testing::HasSubstr("got 0 x 1 x 1"));
}

TEST(NormErrorTest, RefusesCallsThatContradictThemselves) {
  if (!is_built()) GTEST_SKIP() << "this build has no CUDA";
  const NormShape shape{.groups = 4, .rows = 2, .channels = 3};
  float number = 0;
  const NormForward forward{.shape = shape, .running = {.mean = &number, .chains = 3}};
  EXPECT_THAT(message_of([&] { norm_forward(forward, NormPath{}, nullptr); }),
              ::testing::HasSubstr("4 groups cannot be divided into 3 chains"));
  const NormBackward backward{
      .shape = shape, .activation = NormActivation::Relu, .residual_gradient = &number};
  EXPECT_THAT(message_of([&] { norm_backward(backward, NormPath{}, nullptr); }),
              ::testing::HasSubstr("takes y"));
  std::uint8_t mark = 0;
  const NormForward marked{.shape = shape, .marks = &mark};
  EXPECT_THAT(message_of([&] { norm_forward(marked, NormPath{}, nullptr); }),
              ::testing::HasSubstr("marks take a residual"));
  const NormPath resident{NormPathKind::Resident, 256, 4, 1, 1};
  EXPECT_THAT(message_of([&] { norm_forward({.shape = shape}, resident, nullptr); }),
              ::testing::HasSubstr("begin at 16 bytes"));
  const NormShape wide{.groups = 1, .rows = 2, .channels = 4};
  const NormPath unknown{NormPathKind::Resident, 96, 4, 1, 1};
  EXPECT_THAT(message_of([&] { norm_forward({.shape = wide}, unknown, nullptr); }),
              ::testing::HasSubstr("no kernel has blocks of 96x4"));
}

/// Numbers on the GPU with some more behind them, which nobody may write. `shift` numbers stand
/// before them, so that they are not aligned.
template <typename T>
class Guarded {
 public:
  explicit Guarded(std::int64_t count, std::int64_t shift = 0)
      : Guarded(OnDevice<T>(static_cast<std::size_t>(count + shift + kBehind)), count, shift) {}
  explicit Guarded(const std::vector<T>& values, std::int64_t shift = 0)
      : Guarded(static_cast<std::int64_t>(values.size()), shift) {
    if (values.empty()) return;
    copy_to_device(values.data(), data(), values.size() * sizeof(T), nullptr);
    wait_for(nullptr);
  }

  T* data() const { return memory_.data() + shift_; }
  /// None for the pointer of a tensor without elements.
  T* data_or_none() const { return count_ == 0 ? nullptr : data(); }
  std::vector<T> values() const {
    const auto all = memory_.values();
    const std::vector<T> behind(all.begin() + shift_ + count_, all.end());
    EXPECT_EQ(std::memcmp(behind.data(), poison_.data(), poison_.size()), 0)
        << "something was written behind the end";
    return {all.begin() + shift_, all.begin() + shift_ + count_};
  }

 private:
  static constexpr std::int64_t kBehind = 64;
  Guarded(OnDevice<T> memory, std::int64_t count, std::int64_t shift)
      : memory_(std::move(memory)),
        poison_(static_cast<std::size_t>(kBehind) * sizeof(T), 0xCD),
        count_(count),
        shift_(shift) {}

  OnDevice<T> memory_;
  std::vector<unsigned char> poison_;
  std::int64_t count_;
  std::int64_t shift_;
};

template <typename T>
void expect_near(const std::vector<T>& found, const Expected& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.values.size()) << what;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double value = to_float(found[i]);
    if (std::abs(value - expected.values[i]) <= expected.within[i]) continue;  // never a NaN
    if (++wrong == 1) {
      ADD_FAILURE() << what << "[" << i << "] is " << value << ", expected " << expected.values[i]
                    << " within " << expected.within[i];
    }
  }
  if (wrong > 0) ADD_FAILURE() << what << ": " << wrong << " of " << found.size() << " are wrong";
}

template <typename T>
bool same_vector_bits(const std::vector<T>& left, const std::vector<T>& right) {
  return left.size() == right.size() &&
         (left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0);
}

struct How {
  std::optional<NormPath> path{};
  std::int64_t shift = 0;
  bool by_marks = false;  ///< goes backward, where y is not given
};

/// A bit for each number, in a byte for 16 bytes of them: not <= 0.
template <typename T>
std::vector<std::uint8_t> marks_of(const std::vector<T>& y) {
  constexpr auto kNumbers = 16 / sizeof(T);
  std::vector<std::uint8_t> marks((y.size() + kNumbers - 1) / kNumbers);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (to_float(y[i]) <= 0) continue;
    marks[i / kNumbers] = static_cast<std::uint8_t>(marks[i / kNumbers] | 1U << (i % kNumbers));
  }
  return marks;
}

template <typename T>
struct ForwardResults {
  std::vector<T> y;
  std::vector<float> mean, inverse_deviation, running_mean, running_variance;
  bool operator==(const ForwardResults& other) const {
    return same_vector_bits(y, other.y) && same_vector_bits(mean, other.mean) &&
           same_vector_bits(inverse_deviation, other.inverse_deviation) &&
           same_vector_bits(running_mean, other.running_mean) &&
           same_vector_bits(running_variance, other.running_variance);
  }
};

NormActivation activation_of(const NormCase& norm) {
  return norm.is_relu ? NormActivation::Relu : NormActivation::None;
}

constexpr std::int64_t kCountBefore = std::int64_t{1} << 40;

template <typename T>
ForwardResults<T> run_forward(const NormCase& norm, const NormInputs<T>& in, const How& how = {}) {
  const auto shape = shape_of(norm, kTypeOf<T>);
  const Guarded<T> x(in.x, how.shift), residual(in.residual, how.shift), y(norm.size(), how.shift);
  const Guarded<float> weight(in.weight), bias(in.bias), mean(norm.statistics()),
      inverse(norm.statistics()), running_mean(in.running_mean),
      running_variance(in.running_variance);
  const OnDevice<std::int64_t> count(std::vector<std::int64_t>{kCountBefore});
  const DeviceMemory workspace(norm_workspace_bytes(shape));
  NormForward call{.shape = shape,
                   .parameters = {weight.data(), bias.data(), kEpsilon},
                   .activation = activation_of(norm),
                   .x = x.data(),
                   .residual = residual.data_or_none(),
                   .y = y.data(),
                   .statistics = {mean.data(), inverse.data()},
                   .running = {.mean = running_mean.data(),
                               .variance = running_variance.data(),
                               .momentum = static_cast<float>(kMomentum),
                               .chains = norm.chains,
                               .count = count.data()},
                   .workspace = workspace.data()};
  const Guarded<std::uint8_t> marks(static_cast<std::int64_t>(norm_mark_bytes(call)));
  call.marks = marks.data_or_none();
  if (how.path) {
    norm_forward(call, *how.path, nullptr);
  } else {
    norm_forward(call, nullptr);
  }
  EXPECT_EQ(count.values().front(), kCountBefore + norm.groups / norm.chains);
  if (call.marks != nullptr) {
    EXPECT_EQ(marks.values(), marks_of(y.values()));
  }
  return {y.values(), mean.values(), inverse.values(), running_mean.values(),
          running_variance.values()};
}

template <typename T>
void expect_forward_results(const ForwardResults<T>& found, const ExpectedForward& expected) {
  expect_near(found.y, expected.y, "y");
  expect_near(found.mean, expected.mean, "mean");
  expect_near(found.inverse_deviation, expected.inverse_deviation, "inverse deviation");
  expect_near(found.running_mean, expected.running_mean, "running mean");
  expect_near(found.running_variance, expected.running_variance, "running variance");
}

/// Where gradients are written: apart from all inputs, or over some of them.
enum class Place { Apart, DxOverDy, DxOverSecond, ResidualOverDy, Both };

template <typename T>
struct BackwardResults {
  std::vector<T> dx, residual_gradient;
  std::vector<float> weight_gradient, bias_gradient;
  bool operator==(const BackwardResults& other) const {
    return same_vector_bits(dx, other.dx) &&
           same_vector_bits(residual_gradient, other.residual_gradient) &&
           same_vector_bits(weight_gradient, other.weight_gradient) &&
           same_vector_bits(bias_gradient, other.bias_gradient);
  }
};

template <typename T>
BackwardResults<T> run_backward(const NormCase& norm, const NormInputs<T>& in,
                                const NormKept<T>& kept, const How& how = {},
                                Place place = Place::Apart) {
  const auto shape = shape_of(norm, kTypeOf<T>);
  const bool takes_gate = norm.is_relu && norm.has_residual;
  const bool takes_y = takes_gate && !how.by_marks;
  const bool takes_marks = takes_gate && how.by_marks;
  const Guarded<std::uint8_t> marks(takes_marks ? marks_of(kept.y) : std::vector<std::uint8_t>{});
  const Guarded<T> x(in.x, how.shift), dy(in.dy, how.shift), second(in.second, how.shift),
      y(takes_y ? kept.y : std::vector<T>{}, how.shift), apart(norm.size(), how.shift),
      residual_apart(norm.has_residual ? norm.size() : 0, how.shift);
  const auto& dx = place == Place::DxOverDy                               ? dy
                   : place == Place::DxOverSecond || place == Place::Both ? second
                                                                          : apart;
  const auto& residual_gradient =
      place == Place::ResidualOverDy || place == Place::Both ? dy : residual_apart;
  const Guarded<float> weight(in.weight), bias(in.bias), mean(kept.mean),
      inverse(kept.inverse_deviation), weight_gradient(norm.channels), bias_gradient(norm.channels);
  const DeviceMemory workspace(norm_workspace_bytes(shape));
  const NormBackward call{
      .shape = shape,
      .parameters = {weight.data(), bias.data(), kEpsilon},
      .activation = activation_of(norm),
      .x = x.data(),
      .y = y.data_or_none(),
      .marks = marks.data_or_none(),
      .statistics = {mean.data(), inverse.data()},
      .dy = dy.data(),
      .second_dy = second.data_or_none(),
      .dx = dx.data(),
      .residual_gradient = norm.has_residual ? residual_gradient.data() : nullptr,
      .weight_gradient = weight_gradient.data(),
      .bias_gradient = bias_gradient.data(),
      .workspace = workspace.data()};
  if (how.path) {
    norm_backward(call, *how.path, nullptr);
  } else {
    norm_backward(call, nullptr);
  }
  return {dx.values(), norm.has_residual ? residual_gradient.values() : std::vector<T>{},
          weight_gradient.values(), bias_gradient.values()};
}

template <typename T>
void expect_backward_results(const BackwardResults<T>& found, const ExpectedBackward& expected) {
  expect_near(found.dx, expected.dx, "dx");
  expect_near(found.residual_gradient, expected.residual_gradient, "residual gradient");
  expect_near(found.weight_gradient, expected.weight_gradient, "weight gradient");
  expect_near(found.bias_gradient, expected.bias_gradient, "bias gradient");
}

/// Both passes, each twice: the same bits both times.
template <typename T>
void check_both_passes(const NormCase& norm, const How& how = {}) {
  SCOPED_TRACE(::testing::Message()
               << norm << " " << name_of(kTypeOf<T>) << " "
               << (how.path ? to_string(*how.path) : "") << " shift " << how.shift);
  NormInputs<T> in(norm);
  const auto forward = expect_forward(norm, in);
  const auto found = run_forward(norm, in, how);
  expect_forward_results(found, forward);
  EXPECT_EQ(run_forward(norm, in, how), found) << "forward differs from run to run";
  const auto kept = keep<T>(forward);
  const auto backward = expect_backward(norm, kept, in);
  const auto gradients = run_backward(norm, in, kept, how);
  expect_backward_results(gradients, backward);
  EXPECT_EQ(run_backward(norm, in, kept, how), gradients) << "backward differs from run to run";
  if (!has_wide_rows(shape_of(norm, kTypeOf<T>))) return;
  auto by_marks = how;
  by_marks.by_marks = true;
  EXPECT_EQ(run_backward(norm, in, kept, by_marks), gradients) << "by marks";
}

template <typename T>
class NormOnDeviceTest : public DeviceTest {};
using Types = ::testing::Types<float, Float16, BFloat16>;
TYPED_TEST_SUITE(NormOnDeviceTest, Types);

TYPED_TEST(NormOnDeviceTest, NormalizesShapesOfResidualNetworks) {
  for (auto norm : std::vector<NormCase>{{.groups = 1, .rows = 65536, .channels = 16},
                                         {.groups = 1, .rows = 16384, .channels = 64},
                                         {.groups = 2, .rows = 4096, .channels = 128},
                                         {.groups = 64, .rows = 64, .channels = 64},
                                         {.groups = 3, .rows = 1024, .channels = 256},
                                         {.groups = 1, .rows = 1024, .channels = 512},
                                         {.groups = 2, .rows = 256, .channels = 512},
                                         {.groups = 1, .rows = 64, .channels = 2048}}) {
    norm.is_relu = true;
    check_both_passes<TypeParam>(norm);
    norm.has_residual = true;
    norm.has_second = norm.groups == 1;
    check_both_passes<TypeParam>(norm);
  }
}

TYPED_TEST(NormOnDeviceTest, NormalizesOddShapes) {
  std::int64_t variant = 0;
  for (const std::int64_t channels : {1, 3, 10, 33, 64, 100, 260}) {
    for (const std::int64_t rows : {1, 2, 7, 63, 1000}) {
      for (const std::int64_t groups : {1, 2, 5}) {
        const bool has_residual = variant % 2 == 1;
        check_both_passes<TypeParam>({.groups = groups,
                                      .rows = rows,
                                      .channels = channels,
                                      .has_residual = has_residual,
                                      .is_relu = variant % 3 != 0,
                                      .has_second = variant % 5 < 2,
                                      .chains = variant % 2 == 0 ? groups : 1});
        ++variant;
      }
    }
  }
}

TYPED_TEST(NormOnDeviceTest, MovesRunningStatisticsAlongChains) {
  for (const std::int64_t chains : {1, 2, 3, 8}) {
    for (const std::int64_t length : {1, 3, 24}) {
      const NormCase norm{.groups = chains * length, .rows = 24, .channels = 40, .chains = chains};
      SCOPED_TRACE(::testing::Message() << norm);
      const NormInputs<TypeParam> in(norm);
      expect_forward_results(run_forward(norm, in), expect_forward(norm, in));
    }
  }
}

TYPED_TEST(NormOnDeviceTest, LosesNothingWhereTheMeanIsLarge) {
  for (const std::int64_t channels : {33, 64}) {
    for (const std::int64_t rows : {500, 20000}) {
      check_both_passes<TypeParam>({.groups = 2,
                                    .rows = rows,
                                    .channels = channels,
                                    .is_relu = true,
                                    .mean = 1000,
                                    .deviation = 0.1});
    }
  }
}

TYPED_TEST(NormOnDeviceTest, TakesMemoryThatIsNotAligned) {
  check_both_passes<TypeParam>({.groups = 2,
                                .rows = 700,
                                .channels = 64,
                                .has_residual = true,
                                .is_relu = true,
                                .has_second = true},
                               {.shift = 1});
}

TYPED_TEST(NormOnDeviceTest, GivesTheSameOnTheStreamingPath) {
  for (const std::int64_t rows : {9, 1500, 20000}) {
    NormCase norm{.groups = 2, .rows = rows, .channels = 72};
    const How streaming{.path = NormPath{}};
    check_both_passes<TypeParam>(norm, streaming);
    norm.is_relu = true;
    check_both_passes<TypeParam>(norm, streaming);
    norm.has_residual = norm.has_second = true;
    check_both_passes<TypeParam>(norm, streaming);
  }
}

/// Rows that no block can keep, so that some are read twice, and parts without rows.
TYPED_TEST(NormOnDeviceTest, GivesTheSameOnEveryResidentPath) {
  if (norm_chip().compute_major < 9) GTEST_SKIP() << "this chip has no clusters";
  for (const std::int64_t rows : {5, 2100}) {
    NormCase norm{
        .groups = 2, .rows = rows, .channels = 72, .has_residual = rows == 5, .is_relu = true};
    NormInputs<TypeParam> in(norm);
    const auto forward = expect_forward(norm, in);
    const auto kept = keep<TypeParam>(forward);
    const auto backward = expect_backward(norm, kept, in);
    for (const auto& path : resident_paths(shape_of(norm, kTypeOf<TypeParam>), 8)) {
      SCOPED_TRACE(::testing::Message() << norm << " " << to_string(path));
      expect_forward_results(run_forward(norm, in, {.path = path}), forward);
      expect_backward_results(run_backward(norm, in, kept, {.path = path}), backward);
      if (this->HasFailure()) return;
    }
  }
}

TYPED_TEST(NormOnDeviceTest, AddsResidualsToRowsThatAreReadTwice) {
  if (norm_chip().compute_major < 9) GTEST_SKIP() << "this chip has no clusters";
  const NormCase norm{.groups = 2,
                      .rows = 9001,
                      .channels = 64,
                      .has_residual = true,
                      .is_relu = true,
                      .has_second = true};
  for (const auto& block : kResidentBlocks) {
    const NormPath path{NormPathKind::Resident, block.threads, block.packets, 8, 2};
    check_both_passes<TypeParam>(norm, {.path = path});
  }
}

TYPED_TEST(NormOnDeviceTest, WritesGradientsOverInputs) {
  const NormCase norm{.groups = 2,
                      .rows = 900,
                      .channels = 64,
                      .has_residual = true,
                      .is_relu = true,
                      .has_second = true};
  NormInputs<TypeParam> in(norm);
  const auto kept = keep<TypeParam>(expect_forward(norm, in));
  const auto expected = expect_backward(norm, kept, in);
  std::vector<How> hows{{}, {.path = NormPath{}}, {.shift = 1}};
  if (norm_chip().compute_major >= 9) {
    hows.push_back({.path = NormPath{NormPathKind::Resident, 256, 4, 8, 2}});  // reads twice
  }
  for (const auto& how : hows) {
    for (const auto place :
         {Place::DxOverDy, Place::DxOverSecond, Place::ResidualOverDy, Place::Both}) {
      SCOPED_TRACE(static_cast<int>(place));
      expect_backward_results(run_backward(norm, in, kept, how, place), expected);
    }
  }
}

TYPED_TEST(NormOnDeviceTest, EvaluatesWithRunningStatistics) {
  for (const std::int64_t channels : {10, 64, 260}) {
    for (const bool has_residual : {false, true}) {
      const NormCase norm{
          .rows = 777, .channels = channels, .has_residual = has_residual, .is_relu = has_residual};
      const NormInputs<TypeParam> in(norm);
      const Guarded<TypeParam> x(in.x), residual(in.residual), y(norm.size());
      const Guarded<float> weight(in.weight), bias(in.bias), mean(in.running_mean),
          variance(in.running_variance);
      norm_evaluate({.shape = shape_of(norm, kTypeOf<TypeParam>),
                     .parameters = {weight.data(), bias.data(), kEpsilon},
                     .activation = activation_of(norm),
                     .x = x.data(),
                     .residual = residual.data_or_none(),
                     .y = y.data(),
                     .running_mean = mean.data(),
                     .running_variance = variance.data()},
                    nullptr);
      Expected expected(norm.size());
      for (std::int64_t i = 0; i < norm.size(); ++i) {
        const auto c = static_cast<std::size_t>(i % channels);
        const auto at = static_cast<std::size_t>(i);
        auto value = (to_float(in.x[at]) - static_cast<double>(in.running_mean[c])) /
                         std::sqrt(in.running_variance[c] + kEpsilon) * in.weight[c] +
                     in.bias[c];
        if (has_residual) value = std::max(0.0, value + to_float(in.residual[at]));
        expected.set(i, value, 1e-5 + (1e-5 + rounding<TypeParam>()) * std::abs(value));
      }
      expect_near(y.values(), expected, "y");
    }
  }
}

TYPED_TEST(NormOnDeviceTest, LeavesOutWhatIsNotAskedFor) {
  const NormCase norm{.groups = 2, .rows = 100, .channels = 16, .is_relu = true};
  NormInputs<TypeParam> in(norm);
  const auto kept = keep<TypeParam>(expect_forward(norm, in));
  const auto expected = expect_backward(norm, kept, in);
  const Guarded<TypeParam> x(in.x), dy(in.dy), dx(norm.size());
  const Guarded<float> weight(in.weight), bias(in.bias), mean(kept.mean),
      inverse(kept.inverse_deviation);
  const auto shape = shape_of(norm, kTypeOf<TypeParam>);
  const DeviceMemory workspace(norm_workspace_bytes(shape));
  norm_backward({.shape = shape,
                 .parameters = {weight.data(), bias.data(), kEpsilon},
                 .activation = NormActivation::Relu,
                 .x = x.data(),
                 .statistics = {mean.data(), inverse.data()},
                 .dy = dy.data(),
                 .dx = dx.data(),
                 .workspace = workspace.data()},
                nullptr);
  expect_near(dx.values(), expected.dx, "dx");
}

}  // namespace
}  // namespace lockstep::gpu
