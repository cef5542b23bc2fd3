#include "lockstep/gpu/update/update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "lockstep/base/half.h"
#include "tests/gpu/numbers.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

TEST(UpdateTest, RefusesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_ANY_THROW(measure(nullptr, 1, {}, nullptr, nullptr));
  EXPECT_ANY_THROW(measure_trust({}, nullptr, nullptr));
  EXPECT_ANY_THROW(find_trust(nullptr, nullptr, 0, nullptr, nullptr));
  EXPECT_ANY_THROW(update({}, nullptr));
}

constexpr std::size_t kParameters = 9;
constexpr std::size_t kIdle = 4;        // a parameter that has no gradient
constexpr std::size_t kIdleBuffer = 1;  // and a buffer that nobody changes
constexpr std::size_t kZero = 5;        // a parameter of zeros, for which LAMB has no norm
constexpr std::int64_t kStepsToGrow = 3;
constexpr double kLargestLossScale = 0x1p24;

/// Parameters, then buffers, each at a multiple of so many elements, with a gap behind it.
struct Layout {
  explicit Layout(std::int64_t unit) {
    for (const std::int64_t count : {1, 4097, 64, 10007, 2048, 300, 4096, 5, 12289})
      add(count, unit);
    num_weights = static_cast<std::size_t>(num_elements);
    for (const std::int64_t count : {7, 64, 5000}) add(count, unit);
  }

  void add(std::int64_t count, std::int64_t unit) {
    tensors.push_back({num_elements, count});
    num_elements += (count + unit - 1) / unit * unit + unit;
  }

  std::size_t size() const { return static_cast<std::size_t>(num_elements); }
  std::size_t first(std::size_t tensor) const {
    return static_cast<std::size_t>(tensors[tensor].first);
  }
  std::size_t count(std::size_t tensor) const {
    return static_cast<std::size_t>(tensors[tensor].count);
  }

  std::vector<Extent> tensors;
  std::size_t num_weights = 0;
  std::int64_t num_elements = 0;
};

struct Case {
  std::string name;
  Optimizer optimizer;
  std::int64_t unit = 16;
  std::int64_t divisor = 8;
  std::optional<DataType> half{};
  bool has_loss_scaling = false;

  bool is_measured() const { return has_loss_scaling || optimizer.clip_norm().has_value(); }
  Skips skips() const { return has_loss_scaling ? Skips::Possible : Skips::Never; }
};
void PrintTo(const Case& it, std::ostream* out) {
  *out << it.name;
}

/// What the replicas of one step bring.
struct StepInput {
  Floats sum;
  Floats losses;
  double lr_factor;
};

/// Everything that a step changes.
struct State {
  State(const Layout& layout, unsigned seed)
      : weights(plain_floats(layout.size(), seed)),
        first(layout.num_weights),
        second(layout.num_weights),
        average(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(layout.num_weights)),
        half(layout.num_weights, 0xabcd),
        counts(kParameters),
        trust_sums(2 * cut_into_chunks(layout.tensors).size()),
        trust(kParameters, 1) {
    std::fill_n(weights.data() + layout.first(kZero), layout.count(kZero), 0.0F);
    counts[3] = 4;  // it came later, or earlier, than the others
  }

  Floats weights, first, second, average;
  std::vector<std::uint16_t> half;
  std::vector<std::int64_t> counts;
  std::vector<double> trust_sums;  ///< LAMB: `optimizer::TrustSums` of each chunk
  std::vector<double> trust;
  StepControl control{.loss_scale = 1024};
};

/// A step as `train::WeightUpdate` makes it, with the same functions of the optimizer.
class StepOnCpu {
 public:
  StepOnCpu(const Case& made, const Layout& layout, const Floats& changed, State& state)
      : case_(made), layout_(layout), changed_(changed), state_(state) {}

  void make(StepInput input) {
    sum_ = std::move(input.sum);
    optimizer::divide(static_cast<float>(case_.divisor),
                      std::span(sum_).first(layout_.num_weights));
    auto& control = state_.control;
    control.skipped = is_skipped(input.losses) ? 1 : 0;
    control.clip = clip_factor();
    if (control.skipped == 0) change_all(input.lr_factor);
    ++control.step;
    if (control.skipped == 0) ++control.updates;
    if (case_.has_loss_scaling) scale_losses();
  }

 private:
  std::span<float> sum_of(std::size_t tensor) {
    return std::span(sum_).subspan(layout_.first(tensor), layout_.count(tensor));
  }

  bool is_skipped(const Floats& losses) {
    if (!case_.has_loss_scaling) return false;
    for (const float loss : losses) {
      if (!std::isfinite(loss)) return true;
    }
    for (std::size_t i = 0; i < kParameters; ++i) {
      if (optimizer::count_not_finite(sum_of(i)) > 0) return true;
    }
    return false;
  }

  float clip_factor() {
    const auto most = case_.optimizer.clip_norm();
    if (!most) return 1;
    double squares = 0;
    for (std::size_t i = 0; i < kParameters; ++i) {
      for_blocks(i, [&](std::size_t begin, std::size_t count) {
        squares += optimizer::sum_of_squares(sum_of(i).subspan(begin, count));
      });
    }
    return static_cast<float>(std::min(1.0, *most / (std::sqrt(squares) + 1e-6)));
  }

  template <typename Action>
  void for_blocks(std::size_t tensor, const Action& action) {
    constexpr std::size_t kBlock = 4096;
    for (std::size_t done = 0; done < layout_.count(tensor); done += kBlock) {
      action(done, std::min(kBlock, layout_.count(tensor) - done));
    }
  }

  void change_all(double lr_factor) {
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      if (changed_[i] == 0) continue;
      if (i < kParameters) {
        change_parameter(i, lr_factor);
      } else {
        optimizer::divide(3, sum_of(i));
        std::ranges::copy(sum_of(i), state_.weights.data() + layout_.first(i));
      }
    }
  }

  Slice slice_of(std::size_t parameter, std::size_t begin, std::size_t count) {
    const auto part = [&](Floats& row) {
      return std::span(row).subspan(layout_.first(parameter) + begin, count);
    };
    Slice slice{.gradient = part(sum_),
                .weights = part(state_.weights),
                .next_weights = part(state_.weights)};
    const auto states = case_.optimizer.num_states();
    if (states > 0) slice.state[0] = slice.next_state[0] = part(state_.first);
    if (states > 1) slice.state[1] = slice.next_state[1] = part(state_.second);
    return slice;
  }

  void change_parameter(std::size_t i, double lr_factor) {
    const UpdateFacts facts{.lr = settings(i).lr * lr_factor,
                            .weight_decay = settings(i).weight_decay,
                            .count = ++state_.counts[i]};
    if (case_.optimizer.kind() == OptimizerKind::Lamb) find_trust(i, facts);
    optimizer::update(case_.optimizer, slice_of(i, 0, layout_.count(i)), facts, state_.control.clip,
                      state_.trust[i]);
    average_and_round(i);
  }

  void find_trust(std::size_t i, const UpdateFacts& facts) {
    const auto first_chunk = chunk_ranges(layout_.tensors)[i].first;
    auto place = state_.trust_sums.begin() + 2 * first_chunk;
    optimizer::TrustSums sums;
    for_blocks(i, [&](std::size_t begin, std::size_t count) {
      const auto block = optimizer::trust_sums(case_.optimizer, slice_of(i, begin, count), facts,
                                               state_.control.clip);
      sums.weights += * place++ = block.weights;
      sums.direction += * place++ = block.direction;
    });
    state_.trust[i] = optimizer::StepRules::trust_ratio(sums.weights, sums.direction);
  }

  void average_and_round(std::size_t i) {
    const auto weights = std::span(state_.weights).subspan(layout_.first(i), layout_.count(i));
    const auto average = std::span(state_.average).subspan(layout_.first(i), layout_.count(i));
    if (const auto decay = case_.optimizer.average_decay()) {
      optimizer::average(*decay, average, weights, average);
    }
    if (!case_.half) return;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      state_.half[layout_.first(i) + k] =
          case_.half == DataType::F16 ? to_float16(weights[k]).bits : to_bfloat16(weights[k]).bits;
    }
  }

  void scale_losses() {
    auto& control = state_.control;
    control.good_steps = control.skipped != 0 ? 0 : control.good_steps + 1;
    if (control.skipped != 0) {
      control.loss_scale = static_cast<float>(std::max(1.0, control.loss_scale / 2.0));
    } else if (control.good_steps % kStepsToGrow == 0) {
      control.loss_scale =
          static_cast<float>(std::min(kLargestLossScale, control.loss_scale * 2.0));
    }
  }

 public:
  static optimizer::ParameterSettings settings(std::size_t parameter) {
    return {.lr = parameter == 2 ? 0.3 : 0.05, .weight_decay = parameter % 3 == 0 ? 0.02 : 0};
  }

 private:
  const Case& case_;
  const Layout& layout_;
  const Floats& changed_;
  State& state_;
  Floats sum_;
};

/// The same state in the GPU's memory, and the calls of a step in their order.
class StepOnGpu {
 public:
  StepOnGpu(const Case& made, const Layout& layout, const Floats& changed, const State& state)
      : case_(made),
        table_(cut_into_chunks(layout.tensors)),
        num_parameter_chunks_(count_chunks(layout)),
        chunks_(table_),
        ranges_(chunk_ranges(std::span(layout.tensors).first(kParameters))),
        changed_(changed),
        sum_(layout.size()),
        losses_(3),
        weights_(state.weights),
        first_(state.first),
        second_(state.second),
        average_(state.average),
        half_(state.half),
        counts_(state.counts),
        control_(std::vector<StepControl>{state.control}),
        measured_(table_.size()),
        trust_sums_(state.trust_sums),
        trust_(state.trust) {}

  void begin(const std::vector<double>& lr_factors) {
    std::vector<optimizer::ParameterSettings> settings;
    for (std::size_t i = 0; i < kParameters; ++i) settings.push_back(StepOnCpu::settings(i));
    std::vector<Coefficients> table(num_coefficient_rows(lr_factors.size(), case_.skips()) *
                                    kParameters);
    fill_coefficients({case_.optimizer, settings, counts_.values(), lr_factors, case_.skips()},
                      table);
    coefficients_.emplace(table);
    begin_launch(control_.data(), nullptr);
  }

  void make(const StepInput& input) {
    copy_to_device(input.sum.data(), sum_.data(), input.sum.size() * sizeof(float), nullptr);
    copy_to_device(input.losses.data(), losses_.data(), 3 * sizeof(float), nullptr);
    const auto call = update_call();
    if (case_.is_measured()) measure_and_decide(call.rules.divisor);
    if (case_.optimizer.kind() == OptimizerKind::Lamb) {
      auto* const sums = reinterpret_cast<optimizer::TrustSums*>(trust_sums_.data());
      measure_trust(call, sums, nullptr);
      find_trust(sums, ranges_.data(), kParameters, trust_.data(), nullptr);
    }
    update(call, nullptr);
    end_step({.changed = changed_.data(),
              .counts = counts_.data(),
              .num_parameters = kParameters,
              .rules = {.has_loss_scaling = case_.has_loss_scaling,
                        .steps_to_grow = kStepsToGrow,
                        .largest_scale = kLargestLossScale}},
             control_.data(), nullptr);
    wait_for(nullptr);  // before the input goes
  }

  void expect_equal(const State& expected, const std::string& when) const {
    expect_same_bits(weights_.values(), expected.weights, "weights " + when);
    expect_same_bits(first_.values(), expected.first, "first state " + when);
    expect_same_bits(second_.values(), expected.second, "second state " + when);
    expect_same_bits(average_.values(), expected.average, "average " + when);
    expect_same_bits(half_.values(), expected.half, "rounded weights " + when);
    expect_same_bits(counts_.values(), expected.counts, "counts " + when);
    expect_same_bits(trust_sums_.values(), expected.trust_sums, "trust sums " + when);
    expect_same_bits(trust_.values(), expected.trust, "trust " + when);
    const auto control = control_.values().front();
    EXPECT_EQ(control.step, expected.control.step) << when;
    EXPECT_EQ(control.updates, expected.control.updates) << when;
    EXPECT_EQ(control.skipped, expected.control.skipped) << when;
    EXPECT_EQ(control.clip, expected.control.clip) << when;
    EXPECT_EQ(control.loss_scale, expected.control.loss_scale) << when;
    EXPECT_EQ(control.good_steps, expected.control.good_steps) << when;
  }

 private:
  static std::int32_t count_chunks(const Layout& layout) {
    return static_cast<std::int32_t>(
        cut_into_chunks(std::span(layout.tensors).first(kParameters)).size());
  }

  UpdateCall update_call() const {
    const auto& optimizer = case_.optimizer;
    return {.rules = update_constants(optimizer, case_.divisor, 3),
            .rows = {.sum = sum_.data(),
                     .weights = weights_.data(),
                     .first = optimizer.num_states() > 0 ? first_.data() : nullptr,
                     .second = optimizer.num_states() > 1 ? second_.data() : nullptr,
                     .average = optimizer.average_decay() ? average_.data() : nullptr,
                     .half = case_.half ? half_.data() : nullptr,
                     .half_type = case_.half.value_or(DataType::BF16)},
            .chunks = {chunks_.data(), static_cast<std::int32_t>(table_.size())},
            .num_parameters = kParameters,
            .changed = changed_.data(),
            .coefficients = coefficients_->data(),
            .skips = case_.skips(),
            .trust = trust_.data(),
            .control = control_.data()};
  }

  void measure_and_decide(float divisor) {
    measure(sum_.data(), divisor, {chunks_.data(), num_parameter_chunks_}, measured_.data(),
            nullptr);
    decide({.measured = measured_.data(),
            .num_chunks = num_parameter_chunks_,
            .losses = losses_.data(),
            .num_losses = 3,
            .rules = {.clip_norm = case_.optimizer.clip_norm().value_or(0),
                      .has_loss_scaling = case_.has_loss_scaling}},
           control_.data(), nullptr);
  }

  const Case& case_;
  std::vector<Chunk> table_;
  std::int32_t num_parameter_chunks_;
  OnDevice<Chunk> chunks_;
  OnDevice<ChunkRange> ranges_;
  OnDevice<float> changed_, sum_, losses_, weights_, first_, second_, average_;
  OnDevice<std::uint16_t> half_;
  OnDevice<std::int64_t> counts_;
  OnDevice<StepControl> control_;
  OnDevice<ChunkMeasure> measured_;
  OnDevice<double> trust_sums_, trust_;
  std::optional<OnDevice<Coefficients>> coefficients_;
};

/// With loss scaling, some steps find what is not finite: in a gradient, in a gap that is nobody's,
/// in a buffer, and in a loss.
StepInput input_of(const Case& made, const Layout& layout, unsigned step) {
  StepInput input{.sum = wide_floats(layout.size(), 100 + step, 4),
                  .losses = {1, 2, 3},
                  .lr_factor = 1.0 / (1 + step)};
  if (!made.has_loss_scaling) return input;
  if (step == 1) input.sum[layout.first(3) + 5000] = kInfinite;
  if (step == 2) input.sum[layout.first(3) + layout.count(3)] = kInfinite;
  if (step == 3) input.losses[2] = std::numeric_limits<float>::quiet_NaN();
  if (step == 5) input.sum[layout.first(kParameters)] = kInfinite;
  return input;
}

class UpdateOnDeviceTest : public DeviceTest, public ::testing::WithParamInterface<Case> {};

TEST_P(UpdateOnDeviceTest, GivesTheBitsOfTheCpu) {
  constexpr unsigned kSteps = 4;  // of an iteration
  const auto& made = GetParam();
  const Layout layout(made.unit);
  Floats changed(layout.tensors.size(), 2);
  changed[kIdle] = 0;
  changed[kParameters + kIdleBuffer] = 0;
  State expected(layout, 1);
  StepOnGpu there(made, layout, changed, expected);
  StepOnCpu here(made, layout, changed, expected);
  for (unsigned iteration = 0; iteration < 2; ++iteration) {
    std::vector<StepInput> inputs;
    std::vector<double> lr_factors;
    for (unsigned step = 0; step < kSteps; ++step) {
      inputs.push_back(input_of(made, layout, iteration * kSteps + step));
      lr_factors.push_back(inputs.back().lr_factor);
    }
    there.begin(lr_factors);
    expected.control.step = 0;
    expected.control.updates = 0;
    for (unsigned step = 0; step < kSteps; ++step) {
      there.make(inputs[step]);
      here.make(std::move(inputs[step]));
      there.expect_equal(expected, "after step " + std::to_string(iteration * kSteps + step));
    }
  }
}

const AdamOptions kAdam{.beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6};
// Rare, but then everything is about roots and quotients of subnormal numbers.
const AdamOptions kTinyEpsilon{.epsilon = 1e-38};

INSTANTIATE_TEST_SUITE_P(
    All, UpdateOnDeviceTest,
    ::testing::Values(
        Case{"Sgd", SGD()}, Case{"SgdPacked", SGD().average_weights(0.9), 1, 6, DataType::BF16},
        Case{"Momentum", SGD({.momentum = 0.9}), 16, 1, DataType::F16},
        Case{"MomentumClipped", SGD({.momentum = 0.9}).clip_norm(0.5), 1, 8, DataType::BF16},
        Case{"Nesterov", SGD({.momentum = 0.8, .nesterov = true}), 16, 6, DataType::BF16},
        Case{"NesterovScaled", SGD({.momentum = 0.8, .nesterov = true}), 1, 6, DataType::F16, true},
        Case{"Adam", Adam(kAdam), 16, 8, DataType::BF16},
        Case{"AdamTiny", Adam(kTinyEpsilon), 1, 6},
        Case{"AdamScaledAndClipped", Adam(kAdam).clip_norm(2).average_weights(0.99), 16, 6,
             DataType::F16, true},
        Case{"AdamW", AdamW(kAdam), 16, 8, DataType::BF16},
        Case{"AdamWPacked", AdamW(kAdam).average_weights(0.999), 1, 6, DataType::F16},
        Case{"AdamWTiny", AdamW(kTinyEpsilon), 16, 1},
        Case{"AdamWScaled", AdamW(kAdam), 16, 8, DataType::F16, true},
        Case{"Lamb", LAMB(kAdam), 16, 8, DataType::BF16},
        Case{"LambPacked", LAMB(kAdam).clip_norm(0.1), 1, 6},
        Case{"LambScaled", LAMB(kAdam).clip_norm(0.1).average_weights(0.9), 16, 6, DataType::F16,
             true}),
    [](const auto& one) { return one.param.name; });

using RoundingOnDeviceTest = DeviceTest;

TEST_F(RoundingOnDeviceTest, RoundsWeightsOfEveryKind) {
  auto weights = wide_floats(5000, 1, 130);
  const Floats special{
      0.0F,         -0.0F,           kInfinite,   -kInfinite,
      65504,        65519.996F,      65520,       0x1p-24F,
      0x1p-25F,     0x1.8p-25F,      0x1p-14F,    0x1.ffcp-15F,
      0x1.ffep-15F, 0x1p-149F,       0x1p-126F,   1.00390625F,
      1.01171875F,  0x1.fefffep127F, 0x1.ffp127F, std::numeric_limits<float>::quiet_NaN()};
  weights.insert(weights.end(), special.begin(), special.end());
  const auto count = static_cast<std::int32_t>(weights.size());
  const std::vector<Extent> tensors{{0, count}};
  const auto table = cut_into_chunks(tensors);
  const OnDevice<Chunk> chunks(table);
  const OnDevice<float> sum(Floats(weights.size(), 1));
  const OnDevice<float> changed(Floats(1, 1));
  // A step that changes nothing, not even what is infinite.
  const OnDevice<Coefficients> coefficients(
      std::vector<Coefficients>{{.step_size = 0, .shrink = 1, .root_bias2 = 1}});
  const OnDevice<StepControl> control(std::vector<StepControl>(1));
  for (const auto type : {DataType::F16, DataType::BF16}) {
    const OnDevice<float> weights_there(weights);
    const OnDevice<float> first(sum.values());
    const OnDevice<float> second(sum.values());
    const OnDevice<std::uint16_t> half(weights.size());
    update({.rules = update_constants(AdamW(), 1, 1),
            .rows = {.sum = sum.data(),
                     .weights = weights_there.data(),
                     .first = first.data(),
                     .second = second.data(),
                     .half = half.data(),
                     .half_type = type},
            .chunks = {chunks.data(), static_cast<std::int32_t>(table.size())},
            .num_parameters = 1,
            .changed = changed.data(),
            .coefficients = coefficients.data(),
            .control = control.data()},
           nullptr);
    const auto next = weights_there.values();
    expect_same_bits(next, weights, "weights");
    std::vector<std::uint16_t> expected;
    for (const float weight : next) {
      expected.push_back(type == DataType::F16 ? to_float16(weight).bits
                                               : to_bfloat16(weight).bits);
    }
    expect_same_bits(half.values(), expected, std::string(name_of(type)));
  }
}

}  // namespace
}  // namespace lockstep::gpu
