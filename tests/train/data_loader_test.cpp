#include "lockstep/train/api/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/data/sets/synthetic.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/train/backends/batch_tensors.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using testing::expect_error;
using testing::expect_same_bits;

data::DatasetPtr small_images(std::int64_t size = 12, std::int64_t channels = 3) {
  return data::synthetic({.size = size, .height = 9, .width = 7, .channels = channels, .seed = 3});
}

struct EpochLength {
  int replicas;
  std::int64_t iterations;
};

TEST(DataLoaderTest, HasTheIterationsOfTheBatchArithmetic) {
  for (const auto& [replicas, iterations] : {EpochLength{1, 24}, EpochLength{8, 3}}) {
    const auto options = alone(replicas).gradient_accumulation(8).device_iterations(4);
    DataLoader loader(options, small_images(50'000), {.batch_size = 64, .workers = 0});
    EXPECT_EQ(loader.size(), iterations);
    EXPECT_EQ(loader.steps_per_epoch(), 4 * iterations);
    EXPECT_EQ(loader.shape().samples_per_step(), 64 * 8 * replicas);
    std::int64_t walked = 0;
    for (auto& iteration : loader) {
      EXPECT_EQ(iteration.number, walked++);
      EXPECT_EQ(iteration.epoch, 0);
    }
    EXPECT_EQ(walked, iterations);
  }
}

std::vector<std::pair<std::int64_t, std::int64_t>> walk(DataLoader& loader) {
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (auto& iteration : loader) places.emplace_back(iteration.epoch, iteration.number);
  return places;
}

TEST(DataLoaderTest, GoesOnWithTheNextEpochOrWhereItIsTold) {
  DataLoader loader(alone(), small_images(), {.batch_size = 4});
  using Place = std::pair<std::int64_t, std::int64_t>;
  EXPECT_THAT(walk(loader), ElementsAre(Place{0, 0}, Place{0, 1}, Place{0, 2}));
  EXPECT_THAT(walk(loader), ElementsAre(Place{1, 0}, Place{1, 1}, Place{1, 2}));
  loader.go_to(7, 1);
  EXPECT_THAT(walk(loader), ElementsAre(Place{7, 1}, Place{7, 2}));
  EXPECT_THAT(walk(loader), ElementsAre(Place{8, 0}, Place{8, 1}, Place{8, 2}));
  loader.go_to(0);
  EXPECT_THAT(walk(loader), ElementsAre(Place{0, 0}, Place{0, 1}, Place{0, 2}));
  for (const auto& [epoch, iteration] : {Place{-1, 0}, Place{0, -1}, Place{0, 3}}) {
    expect_error(
        [&, epoch = epoch, iteration = iteration] { loader.go_to(epoch, iteration); },
        ErrorKind::Options,
        "DataLoader::go_to: expected an epoch from 0 on and an iteration of 0 to 2, found");
  }
}

/// The samples of an iteration, micro-batch by micro-batch, as this instance's loader gives them.
std::vector<std::vector<std::int64_t>> samples_of(DataLoader& loader,
                                                  const DataLoader::Iteration& iteration,
                                                  int batches) {
  auto& source = loader.micro_batches(iteration);
  std::vector<std::vector<std::int64_t>> samples;
  for (int i = 0; i < batches; ++i) {
    const auto batch = source.next();
    samples.emplace_back(batch->samples().begin(), batch->samples().end());
  }
  return samples;
}

TEST(DataLoaderTest, DealsTheNextSamplesOutByReplicaAndMicroBatch) {
  auto identity = testing::identity_of(1, 2, 4);  // replicas 2 and 3, side by side
  Options options{World(identity)};
  options.gradient_accumulation(2);
  DataLoader loader(options, small_images(34), {.batch_size = 2});
  EXPECT_EQ(loader.size(), 2);
  auto at = loader.begin();
  EXPECT_THAT(samples_of(loader, *at, 4), ElementsAre(ElementsAre(8, 9), ElementsAre(12, 13),
                                                      ElementsAre(10, 11), ElementsAre(14, 15)));
  ++at;
  EXPECT_THAT(samples_of(loader, *at, 4), ElementsAre(ElementsAre(24, 25), ElementsAre(28, 29),
                                                      ElementsAre(26, 27), ElementsAre(30, 31)));
}

TEST(DataLoaderTest, ShufflesByEpochAndSeed) {
  const auto first_samples = [](std::uint64_t seed, std::int64_t epoch) {
    DataLoader loader(alone().seed(seed), small_images(40), {.batch_size = 40, .shuffle = true});
    loader.go_to(epoch);
    auto samples = samples_of(loader, *loader.begin(), 1).front();
    auto sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    for (std::int64_t i = 0; i < 40; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
    return samples;
  };
  EXPECT_EQ(first_samples(1, 0), first_samples(1, 0));
  EXPECT_NE(first_samples(1, 0), first_samples(1, 1));
  EXPECT_NE(first_samples(1, 0), first_samples(2, 0));
}

TEST(DataLoaderTest, RefusesASetThatFillsNoIteration) {
  expect_error([] { DataLoader(alone(4), small_images(12), {.batch_size = 4}); },
               ErrorKind::Options, "16");
}

TEST(DataLoaderTest, RefusesANullPointer) {
  expect_error([] { DataLoader(alone(), nullptr, {}); }, ErrorKind::Options,
               "DataLoader: expected a dataset, found a null pointer");
  expect_error([] { EvaluationLoader(alone(), nullptr, {}); }, ErrorKind::Options,
               "expected a dataset, found a null pointer");
}

/// The fields of the first batch.
Fields first_fields(DataLoader& loader, std::optional<data::Batch>& held) {
  held = loader.micro_batches(*loader.begin()).next();
  return loader.tensors()(*held);
}

Fields owned(DataLoader loader) {
  std::optional<data::Batch> held;
  auto fields = first_fields(loader, held);
  Fields copies;
  for (const auto* name : {"image", "label"}) copies.set(name, fields[name].clone());
  return copies;
}

DataLoader with_pipeline(std::optional<data::Normalize> normalize, data::OutputFormat output,
                         std::int64_t channels = 3) {
  const auto set = small_images(12, channels);
  return {
      alone().seed(6),
      set,
      {.batch_size = 5,
       .shuffle = true,
       .pipeline = data::training_pipeline(data::Augment::Standard, set->fields()[0],
                                           {.normalize = std::move(normalize), .output = output})}};
}

TEST(BatchTensorsTest, EightBitPicturesGetTheBitsThatTheLoaderWouldHaveGiven) {
  using data::Layout;
  for (const auto& normalize :
       {std::optional(data::imagenet_normalize()), std::optional<data::Normalize>()}) {
    for (const auto layout : {Layout::ChannelsLast, Layout::ChannelsFirst}) {
      const auto expected = owned(with_pipeline(normalize, {.type = DataType::F32}));
      const auto found = owned(with_pipeline(normalize, {.type = DataType::U8, .layout = layout}));
      EXPECT_THAT(found["image"].sizes().vec(), ElementsAre(5, 3, 9, 7));
      expect_same_bits(found["image"], expected["image"]);
      expect_same_bits(found["label"], expected["label"]);
    }
  }
  const auto grey = data::Normalize{{0.25F}, {0.3F}};
  expect_same_bits(owned(with_pipeline(grey, {.type = DataType::U8}, 1))["image"],
                   owned(with_pipeline(grey, {.type = DataType::F32}, 1))["image"]);
}

TEST(BatchTensorsTest, EightBitPicturesAreDividedAndNormalizedByChannel) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 2 * 2 * 3; ++i) pixels.push_back(static_cast<std::uint8_t>(20 * i));
  const auto set = std::make_shared<data::ArrayDataset>(
      std::vector<data::Field>{{"image", DataType::U8, {2, 2, 3}}},
      std::vector<data::Array>{data::array_of(pixels)});
  DataLoader loader(
      alone(), set,
      {.pipeline = data::Pipeline{.steps = {data::Normalize{{0.1F, 0.2F, 0.3F}, {0.5F, 0.25F, 2}}},
                                  .output = {.type = DataType::U8}}});
  std::optional<data::Batch> held;
  const auto image = first_fields(loader, held)["image"];
  // Row 1, column 0: pixels 120, 140, 160.
  EXPECT_EQ(image[0][0][1][0].item<float>(), (120 / 255.0F - 0.1F) / 0.5F);
  EXPECT_EQ(image[0][1][1][0].item<float>(), (140 / 255.0F - 0.2F) / 0.25F);
  EXPECT_EQ(image[0][2][1][0].item<float>(), (160 / 255.0F - 0.3F) / 2);
}

TEST(BatchTensorsTest, PicturesLieChannelsLastInMemory) {
  for (const auto type : {DataType::F32, DataType::U8, DataType::BF16, DataType::F16}) {
    auto loader = with_pipeline(std::nullopt, {.type = type});
    std::optional<data::Batch> held;
    const auto image = first_fields(loader, held)["image"];
    EXPECT_EQ(image.scalar_type(), at::kFloat);
    EXPECT_THAT(image.strides().vec(), ElementsAre(9 * 7 * 3, 1, 7 * 3, 3));
    EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(BatchTensorsTest, PicturesOf16BitsAreRoundedOnce) {
  const auto normalize = data::imagenet_normalize();
  const auto exact = owned(with_pipeline(normalize, {.type = DataType::F32}))["image"];
  expect_same_bits(owned(with_pipeline(normalize, {.type = DataType::BF16}))["image"],
                   exact.to(at::kBFloat16).to(at::kFloat));
  expect_same_bits(owned(with_pipeline(normalize, {.type = DataType::F16}))["image"],
                   exact.to(at::kHalf).to(at::kFloat));
}

TEST(BatchTensorsTest, PicturesWithoutAPipelineFollowThePrecision) {
  const auto image = [](Precision precision, Half half) {
    return owned(
        DataLoader(alone().precision(precision, half), small_images(), {.batch_size = 3}))["image"];
  };
  const auto exact = image(Precision::P32_32, Half::BF16);
  EXPECT_EQ(exact.max().item<float>() <= 1 && exact.min().item<float>() >= 0, true);
  expect_same_bits(image(Precision::P16_32, Half::BF16), exact.to(at::kBFloat16).to(at::kFloat));
  expect_same_bits(image(Precision::P16_16, Half::F16), exact.to(at::kHalf).to(at::kFloat));
  EXPECT_FALSE(image(Precision::P16_32, Half::BF16).equal(exact));
}

TEST(BatchTensorsTest, FieldsKeepTheirTypesAndVaryingOnesHaveLengths) {
  const auto set = std::make_shared<data::ArrayDataset>(
      std::vector<data::Field>{{"tokens", DataType::I32, {3}, data::FieldKind::Varying},
                               {"pairs", DataType::F32, {2, 2}, data::FieldKind::Varying},
                               {"weight", DataType::F64},
                               {"id", DataType::I64},
                               {"bits", DataType::U8, {2, 2, 2}}},
      std::vector<data::Array>{data::array_of(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {2, 3}),
                               data::array_of(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2}),
                               data::array_of(std::vector<double>{0.5, 1.5}),
                               data::array_of(std::vector<std::int64_t>{7, 9}),
                               data::array_of(std::vector<std::uint8_t>{
                                   0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})});
  DataLoader loader(alone(), set, {.batch_size = 2});
  std::optional<data::Batch> held;
  const auto fields = first_fields(loader, held);
  EXPECT_EQ(fields.size(), 2);
  expect_same_bits(fields["tokens"], torch::tensor({{1, 2, 0}, {4, 5, 6}}, at::kInt));
  expect_same_bits(fields["tokens.length"], torch::tensor({2, 3}, at::kLong));
  expect_same_bits(fields["pairs"],
                   torch::tensor({1.F, 2.F, 0.F, 0.F, 5.F, 6.F, 7.F, 8.F}).reshape({2, 2, 2}));
  expect_same_bits(fields["pairs.length"], torch::tensor({1, 2}, at::kLong));
  expect_same_bits(fields["weight"], torch::tensor({0.5, 1.5}, at::kDouble));
  expect_same_bits(fields["id"], torch::tensor({7, 9}, at::kLong));
  expect_same_bits(fields["bits"], torch::arange(16, at::kByte).reshape({2, 2, 2, 2}));
  EXPECT_FALSE(fields.has("weight.length"));
  EXPECT_EQ(fields.front().data_ptr(), fields["tokens"].data_ptr());
}

TEST(FieldsTest, NameWhatThereIs) {
  Fields fields;
  expect_error([&] { fields.front(); }, ErrorKind::Options,
               "fields: expected at least one, found none");
  fields.set("x", torch::ones({2}));
  fields.set("y", torch::ones({2}));
  fields.set("x", torch::zeros({3}));
  EXPECT_EQ(fields.size(), 3);
  expect_error([&] { fields["z"]; }, ErrorKind::Options, "fields: expected one of x, y, found 'z'");
}

TEST(EvaluationLoaderTest, DealsOutWholeBatches) {
  Options options{World(testing::identity_of(1, 2, 4))};
  const EvaluationLoader loader(options, small_images(23), {.batch_size = 4});
  EXPECT_EQ(loader.batches(), 6);
  EXPECT_EQ(loader.samples(), 23);
  EXPECT_EQ(loader.size_of(5), 3);
  EXPECT_EQ(loader.local_batches(), 2) << "batches 2 and 3, of replicas 2 and 3";
}

}  // namespace
}  // namespace lockstep
