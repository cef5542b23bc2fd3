#include "lockstep/nn/layers/batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/nn/compute_threads.h"
#include "tests/nn/tensors.h"

namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;
using testing::expect_close;
using testing::expect_same_bits;

enum class Form { Norm, NormRelu, NormAddRelu };
constexpr std::array kForms{Form::Norm, Form::NormRelu, Form::NormAddRelu};

const std::vector<std::vector<std::int64_t>> kShapes{{8, 16, 9, 7}, {4, 3, 5, 5},   {6, 17, 4, 4},
                                                     {64, 10},      {2, 600, 3, 3}, {4, 1, 6, 2},
                                                     {4, 64, 1, 1}};

torch::Tensor noise(at::IntArrayRef shape, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(shape, generator);
}

/// A layer whose parameters and statistics are not those that it begins with.
BatchNorm layer_of(std::int64_t channels, at::ScalarType type = at::kFloat) {
  BatchNorm layer(channels);
  const torch::NoGradGuard no_grad;
  layer->weight.copy_(noise({channels}, 1) * 0.4 + 1.0);
  layer->bias.copy_(noise({channels}, 2) * 0.3);
  layer->running_mean.copy_(noise({channels}, 3));
  layer->running_var.copy_(noise({channels}, 4).abs() + 0.5);
  layer->to(type);
  return layer;
}

torch::Tensor run(BatchNorm& layer, Form form, const torch::Tensor& x,
                  const torch::Tensor& residual) {
  if (form == Form::Norm) return layer->forward(x);
  if (form == Form::NormRelu) return layer->forward_relu(x);
  return layer->forward_add_relu(x, residual);
}

/// libtorch's own operations, on the layer's parameters.
torch::Tensor run_libtorchs(BatchNorm& layer, Form form, const torch::Tensor& x,
                            const torch::Tensor& residual) {
  auto y = torch::batch_norm(x, layer->weight, layer->bias, layer->running_mean, layer->running_var,
                             layer->is_training(), 0.1, 1e-5, false);
  if (form == Form::NormAddRelu) y = y + residual;
  return form == Form::Norm ? y : torch::relu(y);
}

torch::Tensor leaf(const torch::Tensor& value) {
  return value.detach().clone().requires_grad_();
}

/// The output and all that training changes or hands on, in a fixed order.
using Results = std::vector<torch::Tensor>;

struct Inputs {
  explicit Inputs(at::IntArrayRef shape, at::ScalarType type = at::kFloat)
      : x(leaf((noise(shape, 5) * 2.0 + 0.7).to(type))),
        residual(leaf(noise(shape, 6).to(type))),
        dy(noise(shape, 7).to(type)) {}

  torch::Tensor x;
  torch::Tensor residual;
  torch::Tensor dy;
};

using Way = torch::Tensor (*)(BatchNorm&, Form, const torch::Tensor&, const torch::Tensor&);

Results train_once(BatchNorm& layer, Form form, const Inputs& in, Way way = run) {
  const auto y = way(layer, form, in.x, in.residual);
  y.backward(in.dy);
  auto residual_gradient = in.residual.grad();
  if (form != Form::NormAddRelu) residual_gradient = torch::zeros_like(in.x);
  return {y.detach(),         in.x.grad(),         residual_gradient, layer->weight.grad(),
          layer->bias.grad(), layer->running_mean, layer->running_var};
}

void expect_all_close(const Results& found, const Results& expected, double relative) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_close(found[i], expected[i].to(found[i].scalar_type()), relative,
                 "result " + std::to_string(i));
  }
}

void expect_all_same_bits(const Results& found, const Results& expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_same_bits(found[i], expected[i], "result " + std::to_string(i));
  }
}

template <typename Function>
Error error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorKind::Bug, ""};
}

class BatchNormTest : public ::testing::TestWithParam<Form> {};
std::string name_of(const ::testing::TestParamInfo<Form>& form) {
  constexpr std::array kNames{"Norm", "NormRelu", "NormAddRelu"};
  return kNames[static_cast<std::size_t>(form.param)];
}

INSTANTIATE_TEST_SUITE_P(Forms, BatchNormTest, ::testing::ValuesIn(kForms), name_of);

TEST_P(BatchNormTest, AgreesWithLibtorchInF32AndF64) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(::testing::PrintToString(shape));
    auto layer = layer_of(shape[1]);
    auto same = layer_of(shape[1]);
    auto exact = layer_of(shape[1], at::kDouble);
    const auto found = train_once(layer, GetParam(), Inputs(shape));
    expect_all_close(found, train_once(same, GetParam(), Inputs(shape), run_libtorchs), 2e-5);
    expect_all_close(
        found, train_once(exact, GetParam(), Inputs(shape, at::kDouble), run_libtorchs), 2e-5);
    EXPECT_EQ(layer->num_batches_tracked.item<std::int64_t>(), 1);
  }
}

TEST_P(BatchNormTest, ComposesF64OfLibtorchsOperations) {
  auto layer = layer_of(5, at::kDouble);
  auto reference = layer_of(5, at::kDouble);
  const auto found = train_once(layer, GetParam(), Inputs({4, 5, 3, 3}, at::kDouble));
  expect_all_same_bits(
      found, train_once(reference, GetParam(), Inputs({4, 5, 3, 3}, at::kDouble), run_libtorchs));
  // Three dimensions have no kernel, but they work.
  auto small = layer_of(5);
  auto exact = layer_of(5, at::kDouble);
  expect_all_close(train_once(small, GetParam(), Inputs({4, 5, 9})),
                   train_once(exact, GetParam(), Inputs({4, 5, 9}, at::kDouble), run_libtorchs),
                   2e-5);
}

/// Groups one after another through a layer without groups.
Results train_in_turn(BatchNorm& layer, Form form, const Inputs& in, std::int64_t groups) {
  std::vector<Results> parts;
  for (std::int64_t i = 0; i < groups; ++i) {
    Inputs part = in;
    part.x = leaf(in.x.chunk(groups)[static_cast<std::size_t>(i)]);
    part.residual = leaf(in.residual.chunk(groups)[static_cast<std::size_t>(i)]);
    part.dy = in.dy.chunk(groups)[static_cast<std::size_t>(i)];
    parts.push_back(train_once(layer, form, part));
  }
  Results all = parts.back();  // parameters' gradients have added up, statistics have moved on
  for (std::size_t result = 0; result < 3; ++result) {
    std::vector<torch::Tensor> pieces;
    for (const auto& part : parts) pieces.push_back(part[result]);
    all[result] = torch::cat(pieces);
  }
  return all;
}

TEST_P(BatchNormTest, GroupsAreTheSameBitsAsEachByItself) {
  const std::vector<std::int64_t> shape{8, 17, 5, 6};
  for (const std::int64_t groups : {1, 2, 4}) {
    auto layer = layer_of(17);
    auto reference = layer_of(17);
    layer->set_groups(groups);
    expect_all_same_bits(train_once(layer, GetParam(), Inputs(shape)),
                         train_in_turn(reference, GetParam(), Inputs(shape), groups));
    EXPECT_EQ(layer->num_batches_tracked.item<std::int64_t>(), groups);

    // libtorch's autograd adds up the gradients of groups in another order.
    auto composed = layer_of(17, at::kDouble);
    composed->set_groups(groups);
    auto exact = layer_of(17, at::kDouble);
    const Inputs wide(shape, at::kDouble);
    expect_all_close(train_once(composed, GetParam(), wide),
                     train_in_turn(exact, GetParam(), wide, groups), 1e-13);
  }
}

TEST_P(BatchNormTest, GivesTheSameBitsWithOneThreadAndWithTwo) {
  const std::vector<std::int64_t> large{16, 24, 40, 40};
  use_compute_threads(1);
  auto layer = layer_of(24);
  const auto alone = train_once(layer, GetParam(), Inputs(large));
  use_compute_threads(2);
  auto other = layer_of(24);
  expect_all_same_bits(train_once(other, GetParam(), Inputs(large)), alone);
  use_compute_threads(1);
}

TEST_P(BatchNormTest, GivesTheSameBitsInThreadsSideBySide) {
  use_compute_threads(1);
  auto layer = layer_of(16);
  const auto alone = train_once(layer, GetParam(), Inputs({16, 16, 32, 32}));
  std::vector<Results> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&result, form = GetParam()] {
      use_compute_threads(1);
      auto own = layer_of(16);
      result = train_once(own, form, Inputs({16, 16, 32, 32}));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) expect_all_same_bits(result, alone);
}

TEST_P(BatchNormTest, GivesTheSameBitsForEveryMemoryFormat) {
  const std::vector<std::int64_t> shape{4, 10, 6, 5};
  auto layer = layer_of(10);
  const auto expected = train_once(layer, GetParam(), Inputs(shape));
  EXPECT_TRUE(expected[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  const auto channels_last = [](const torch::Tensor& tensor) {
    return tensor.contiguous(at::MemoryFormat::ChannelsLast);
  };
  const auto strided = [](const torch::Tensor& tensor) {
    return torch::stack({tensor, tensor}, -1).select(-1, 1);
  };
  for (const auto& change : {std::function<torch::Tensor(torch::Tensor)>(channels_last),
                             std::function<torch::Tensor(torch::Tensor)>(strided)}) {
    Inputs in(shape);
    in.x = change(in.x.detach()).requires_grad_();
    in.residual = change(in.residual.detach()).requires_grad_();
    in.dy = change(in.dy);
    auto other = layer_of(10);
    expect_all_same_bits(train_once(other, GetParam(), in), expected);
  }
}

TEST_P(BatchNormTest, ModifiesNoInputAndNoGradientThatOthersHold) {
  auto layer = layer_of(16);
  Inputs in({4, 16, 5, 5});
  for (auto* tensor : {&in.x, &in.residual, &in.dy}) {
    *tensor = tensor->detach().contiguous(at::MemoryFormat::ChannelsLast);
  }
  in.x.requires_grad_();
  in.residual.requires_grad_();
  const Results before{in.x.detach().clone(), in.residual.detach().clone(), in.dy.clone()};
  // The gradient that arrives is nobody else's here, except where it is kept.
  const auto y = run(layer, GetParam(), in.x, in.residual);
  y.retain_grad();
  (y * 1.0).backward(in.dy);
  expect_all_same_bits({in.x.detach(), in.residual.detach(), in.dy}, before);
  expect_same_bits(y.grad(), in.dy, "what retain_grad kept");
  const auto kept = in.x.grad();
  in.x.mutable_grad() = torch::Tensor();
  // The same, but nobody keeps it.
  (run(layer, GetParam(), in.x, in.residual) * 1.0).backward(in.dy);
  expect_same_bits(in.x.grad(), kept);
  expect_all_same_bits({in.x.detach(), in.residual.detach(), in.dy}, before);
}

TEST_P(BatchNormTest, UsesTheMemoryOfAGradientThatNobodyElseHolds) {
  auto layer = layer_of(16);
  const Inputs in({4, 16, 5, 5});
  const auto last = at::MemoryFormat::ChannelsLast;
  const auto x = in.x.contiguous(last) * 1.0;
  const auto residual = in.residual.contiguous(last) * 1.0;
  const auto y = run(layer, GetParam(), x, residual);
  const void* arriving = nullptr;
  const void* leaving = nullptr;
  y.register_hook([&](const torch::Tensor& gradient) { arriving = gradient.data_ptr(); });
  (GetParam() == Form::NormAddRelu ? residual : x)
      .register_hook([&](const torch::Tensor& gradient) { leaving = gradient.data_ptr(); });
  (y * 1.0).backward(in.dy.contiguous(last));
  EXPECT_NE(arriving, nullptr);
  EXPECT_EQ(leaving, arriving);
}

TEST_P(BatchNormTest, AddsGradientsOfAnInputThatIsAlsoTheResidual) {
  const auto gradient = [&](Way way) {
    auto layer = layer_of(16);
    const Inputs in({4, 16, 5, 5});
    const auto h = in.x * 1.5;
    (way(layer, GetParam(), h, h) * 2.0).backward(in.dy);
    return in.x.grad();
  };
  expect_close(gradient(run), gradient(run_libtorchs), 2e-5);
}

TEST_P(BatchNormTest, CanGoBackwardsTwiceWhereTheGraphIsKept) {
  auto layer = layer_of(16);
  const Inputs in({4, 16, 5, 5});
  const auto y = run(layer, GetParam(), in.x, in.residual);
  y.backward(in.dy, /*retain_graph=*/true);
  const auto once = in.x.grad().clone();
  y.backward(in.dy);
  expect_same_bits(in.x.grad(), once * 2.0);
  EXPECT_THROW(y.backward(in.dy), c10::Error) << "the graph is gone";
}

TEST_P(BatchNormTest, ComputesOnlyTheGradientsThatAreWanted) {
  auto reference = layer_of(16);
  const auto expected = train_once(reference, GetParam(), Inputs({4, 16, 5, 5}));
  auto frozen = layer_of(16);
  frozen->weight.requires_grad_(false);
  frozen->bias.requires_grad_(false);
  Inputs in({4, 16, 5, 5});
  in.residual = in.residual.detach();
  run(frozen, GetParam(), in.x, in.residual).backward(in.dy);
  expect_same_bits(in.x.grad(), expected[1]);
  EXPECT_FALSE(in.residual.grad().defined());
  EXPECT_FALSE(frozen->weight.grad().defined());

  auto layer = layer_of(16);
  Inputs other({4, 16, 5, 5});
  other.x = other.x.detach();
  run(layer, GetParam(), other.x, other.residual).backward(other.dy);
  expect_same_bits(layer->weight.grad(), expected[3]);
  expect_same_bits(layer->bias.grad(), expected[4]);
  EXPECT_FALSE(other.x.grad().defined());
  if (GetParam() == Form::NormAddRelu) expect_same_bits(other.residual.grad(), expected[2]);
}

TEST_P(BatchNormTest, EvaluatesByRunningStatistics) {
  for (const auto& shape : kShapes) {
    auto layer = layer_of(shape[1]);
    layer->eval();
    layer->set_groups(3);  // of no account here
    const Inputs in(shape);
    const auto before = layer->running_mean.clone();
    const auto with_gradient = run(layer, GetParam(), in.x, in.residual);
    const torch::NoGradGuard no_grad;
    const auto without = run(layer, GetParam(), in.x, in.residual);
    expect_close(without, run_libtorchs(layer, GetParam(), in.x, in.residual), 2e-6);
    expect_close(with_gradient, without, 2e-6);
    EXPECT_TRUE(with_gradient.requires_grad());
    EXPECT_FALSE(without.requires_grad());
    expect_same_bits(layer->running_mean, before);
    EXPECT_EQ(layer->num_batches_tracked.item<std::int64_t>(), 0);
  }
}

TEST_P(BatchNormTest, TrainsWithoutGradients) {
  auto layer = layer_of(16);
  auto reference = layer_of(16);
  const Inputs in({4, 16, 5, 5});
  const auto expected = run(reference, GetParam(), in.x, in.residual);
  const torch::NoGradGuard no_grad;
  const auto y = run(layer, GetParam(), in.x, in.residual);
  expect_same_bits(y, expected);
  expect_same_bits(layer->running_var, reference->running_var);
  EXPECT_FALSE(y.requires_grad());
}

TEST_P(BatchNormTest, RefusesGradientsOfGradients) {
  auto layer = layer_of(16);
  const Inputs in({4, 16, 5, 5});
  const auto y = run(layer, GetParam(), in.x, in.residual);
  const auto error = error_of([&] {
    torch::autograd::grad({y.sum()}, {in.x}, {}, /*retain_graph=*/true, /*create_graph=*/true);
  });
  EXPECT_EQ(error.kind(), ErrorKind::Unavailable);
  EXPECT_STREQ(error.what(),
               "batch norm: gradients of gradients are asked for, and its kernels have none");
  EXPECT_EQ(error.hint(), "take gradients without create_graph, or run this layer in f64");
}

TEST_P(BatchNormTest, NoticesAnInputThatWasChangedBeforeTheBackwardPass) {
  auto layer = layer_of(16);
  const Inputs in({4, 16, 5, 5});
  const auto h = (in.x * 1.0).contiguous(at::MemoryFormat::ChannelsLast);
  const auto y = run(layer, GetParam(), h, in.residual);
  {
    const torch::NoGradGuard no_grad;
    h.add_(1.0);
  }
  EXPECT_THROW(y.backward(in.dy), c10::Error);
}

TEST(BatchNormModuleTest, HasTheNamesAndValuesThatTorchvisionGivesThem) {
  const BatchNorm layer(3);
  std::vector<std::string> names;
  for (const auto& item : layer->named_parameters()) names.push_back(item.key());
  EXPECT_THAT(names, ElementsAre("weight", "bias"));
  names.clear();
  for (const auto& item : layer->named_buffers()) names.push_back(item.key());
  EXPECT_THAT(names, ElementsAre("running_mean", "running_var", "num_batches_tracked"));
  EXPECT_TRUE(torch::equal(layer->weight, torch::ones({3})));
  EXPECT_TRUE(torch::equal(layer->bias, torch::zeros({3})));
  EXPECT_TRUE(torch::equal(layer->running_mean, torch::zeros({3})));
  EXPECT_TRUE(torch::equal(layer->running_var, torch::ones({3})));
  EXPECT_EQ(layer->num_batches_tracked.scalar_type(), at::kLong);
  EXPECT_EQ(c10::str(layer), "lockstep::nn::BatchNorm(3, eps=1e-05, momentum=0.1, groups=1)");
}

TEST(BatchNormModuleTest, AClonesParametersAreItsOwn) {
  auto layer = layer_of(4);
  layer->set_groups(2);
  const auto copy = std::dynamic_pointer_cast<BatchNormImpl>(layer->clone());
  EXPECT_EQ(copy->groups(), 2);
  expect_same_bits(copy->running_var, layer->running_var);
  copy->forward(noise({8, 4}, 9));
  EXPECT_FALSE(torch::equal(copy->running_var, layer->running_var));
}

TEST(BatchNormModuleTest, TakesAnEmptyBatch) {
  BatchNorm layer(4);
  EXPECT_EQ(layer->forward_relu(torch::zeros({0, 4, 2, 2})).numel(), 0);
}

TEST(BatchNormModuleTest, KeepsNanAsLibtorchDoes) {
  auto layer = layer_of(3);
  auto x = noise({4, 3, 2, 2}, 5);
  x[1][2][0][1] = std::numeric_limits<float>::quiet_NaN();
  auto reference = layer_of(3);
  const auto y = layer->forward_relu(x);
  const auto expected = run_libtorchs(reference, Form::NormRelu, x, {});
  EXPECT_TRUE(torch::equal(torch::isnan(y), torch::isnan(expected)));
  EXPECT_TRUE(torch::equal(torch::isnan(layer->running_var), torch::isnan(reference->running_var)));
}

TEST(BatchNormErrorTest, SaysWhatWasExpectedAndFound) {
  BatchNorm layer(4);
  layer->set_groups(3);
  const auto uneven = error_of([&] { layer->forward(torch::zeros({8, 4, 2, 2})); });
  EXPECT_EQ(uneven.kind(), ErrorKind::Options);
  EXPECT_STREQ(uneven.what(), "batch norm: expected a batch of 3 equal groups, found 8 samples");
  EXPECT_EQ(uneven.hint(), "use a batch size that 3 divides");
  const auto single = error_of([&] { layer->forward(torch::zeros({3, 4, 1, 1})); });
  EXPECT_STREQ(single.what(),
               "batch norm: expected more than one value per channel in training, found the shape "
               "[3, 4, 1, 1] in 3 groups");
  EXPECT_EQ(single.hint(), "raise the batch size, or call eval()");
  EXPECT_EQ(layer->num_batches_tracked.item<std::int64_t>(), 0);
  EXPECT_STREQ(error_of([&] {
                 layer->forward(torch::zeros({6, 5, 2, 2}));
               }).what(),
               "batch norm: expected an input of 4 channels, found the shape [6, 5, 2, 2]");
  EXPECT_STREQ(error_of([&] { layer->forward(torch::zeros({4})); }).what(),
               "batch norm: expected an input of 4 channels, found the shape [4]");
  const auto x = torch::zeros({6, 4, 2, 2});
  EXPECT_STREQ(
      error_of([&] { layer->forward_add_relu(x, x[0]); }).what(),
      "batch norm: expected a residual of the input's shape [6, 4, 2, 2], found [4, 2, 2]");
  EXPECT_STREQ(error_of([&] { layer->forward_add_relu(x, {}); }).what(),
               "batch norm: expected a residual to add, found none");
  EXPECT_STREQ(error_of([&] { layer->set_groups(0); }).what(),
               "batch norm: expected at least one group, found 0");
  EXPECT_STREQ(error_of([] { BatchNorm(0); }).what(),
               "batch norm: expected at least one channel, found 0");
}

TEST(BatchNormTest, RefusesGroupsThatReplicasDoNotShareAndReplicasAtOnceOnACpu) {
  BatchNorm layer(4);
  EXPECT_STREQ(
      error_of([&] { layer->set_groups(4, 3); }).what(),
      "batch norm: expected groups that replicas share evenly, found 4 groups of 3 replicas");
  layer->set_groups(4, 2);
  EXPECT_STREQ(
      error_of([&] {
        layer->forward(noise({8, 4, 3, 3}, 1));
      }).what(),
      "batch norm: expected f32, fp16 or bf16 on a GPU for several replicas at once, found "
      "Float on cpu");
}

}  // namespace
}  // namespace lockstep::nn
