#include "lockstep/data/loader/loader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/owned_cores.h"
#include "lockstep/data/sets/synthetic.h"
#include "tests/support/errors.h"
#include "tests/support/subprocess.h"

namespace lockstep::data {
namespace {

using testing::eventually;
using testing::expect_error;
using testing::is_asleep;
using namespace std::chrono_literals;

/// A set whose samples can be told apart, with a field of varying length.
class Numbers : public Dataset {
 public:
  explicit Numbers(std::int64_t size)
      : Dataset({{"square", DataType::F32, {2}},
                 {"tokens", DataType::I32, {5, 2}, FieldKind::Varying},
                 {"label", DataType::I64, {}}}),
        size_(size) {}

  std::int64_t size() const override { return size_; }
  void sample(std::int64_t index, Sample& sample) const override {
    const auto square = sample.write<float>(0);
    square[0] = static_cast<float>(index);
    square[1] = static_cast<float>(index * index);
    const auto tokens = sample.write_varying<std::int32_t>(1, index % 6);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(index * 100 + static_cast<std::int64_t>(i));
    }
    sample.set<std::int64_t>(2, index);
  }

 private:
  std::int64_t size_;
};

/// Fails at one sample.
class Broken final : public Numbers {
 public:
  Broken(std::int64_t size, std::int64_t bad) : Numbers(size), bad_(bad) {}
  void sample(std::int64_t index, Sample& sample) const override {
    if (index == bad_) throw Error(ErrorKind::Data, "expected sense, found none", "look elsewhere");
    Numbers::sample(index, sample);
  }
  std::string source_of(std::int64_t index) const override {
    return "file-" + std::to_string(index);
  }

 private:
  std::int64_t bad_;
};

BatchPlanPtr plan_of(std::int64_t size, BatchShape shape = {8, 1, 1, 1}) {
  return micro_batches(TrainOrder(size, shape, {.seed = 11}),
                       {0, static_cast<int>(shape.replicas)});
}

/// All that a loader delivered in some epochs, as bytes.
std::vector<std::string> deliveries(Loader& loader, std::int64_t epochs) {
  std::vector<std::string> all;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (auto& batch : loader.epoch(epoch)) {
      std::string bytes;
      for (std::size_t field = 0; field < batch.fields().size(); ++field) {
        bytes.append(reinterpret_cast<const char*>(batch.data(field)),
                     static_cast<std::size_t>(batch.size()) * bytes_of(batch.fields()[field]));
      }
      all.push_back(std::move(bytes));
    }
  }
  return all;
}

TEST(LoaderTest, DeliversWhatTheSetHolds) {
  Loader loader(std::make_shared<Numbers>(100), plan_of(100), {.workers = 2});
  const TrainOrder order(100, {8, 1, 1, 1}, {.seed = 11});
  std::int64_t step = 0;
  for (auto& batch : loader.epoch(2)) {
    std::vector<std::int64_t> expected(8);
    order.samples_of({2, step, 0, 0}, expected);
    ASSERT_EQ(batch.size(), 8);
    EXPECT_EQ(batch.place(), (BatchPlace{.epoch = 2, .number = step, .step = step}));
    for (std::size_t i = 0; i < 8; ++i) {
      const auto index = expected[i];
      EXPECT_EQ(batch.samples()[i], index);
      EXPECT_EQ(batch.values<std::int64_t>("label")[i], index);
      EXPECT_EQ(batch.values<float>(0)[2 * i + 1], static_cast<float>(index * index));
      const auto length = index % 6;
      EXPECT_EQ(batch.lengths(1)[i], length);
      for (std::int64_t t = 0; t < 10; ++t) {
        EXPECT_EQ(batch.values<std::int32_t>(1)[i * 10 + static_cast<std::size_t>(t)],
                  t < length * 2 ? index * 100 + t : 0);
      }
    }
    ++step;
  }
  EXPECT_EQ(step, 12);
}

TEST(LoaderTest, DeliversTheSameInEveryModeWithAnyWorkersAndBuffers) {
  const auto set = synthetic({.size = 333, .height = 12, .width = 9});
  const auto run = [&](LoaderOptions options) {
    options.pipeline = Pipeline{{RandomCrop{12, 9, 2}, RandomHorizontalFlip{}},
                                {DataType::F32, Layout::ChannelsFirst}};
    Loader loader(set, plan_of(333, {7, 2, 1, 3}), options);
    return deliveries(loader, 3);
  };
  const auto expected = run({.mode = LoaderMode::Sync, .workers = 0});
  EXPECT_EQ(expected.size(), 3U * 7 * 2 * 3);
  EXPECT_NE(expected[0], expected[1]);
  for (const auto mode : {LoaderMode::Sync, LoaderMode::Async}) {
    for (const int workers : {0, 1, 2, 5}) {
      for (const int buffers : {1, 2, 7}) {
        for (const bool early : {false, true}) {
          EXPECT_EQ(
              run({.mode = mode, .workers = workers, .buffers = buffers, .early_preload = early}),
              expected)
              << name_of(mode) << " " << workers << " " << buffers << " " << early;
        }
      }
    }
  }
}

TEST(LoaderTest, AnIterationHoldsTheMicroBatchesOfTheLocalReplicas) {
  const auto set = std::make_shared<Numbers>(400);
  const BatchShape shape{5, 3, 2, 4};
  const TrainOrder order(400, shape, {.seed = 11});
  Loader loader(set, iterations(order, {1, 2}), {.workers = 3});
  EXPECT_EQ(loader.batches_per_epoch(), order.iterations_per_epoch());
  for (auto& batch : loader.epoch(1)) {
    const auto labels = batch.values<std::int64_t>("label");
    ASSERT_EQ(batch.size(), 2 * 2 * 3 * 5);
    std::size_t at = 0;
    for (std::int64_t step = 0; step < 2; ++step) {
      for (std::int64_t replica = 1; replica < 3; ++replica) {
        for (std::int64_t index = 0; index < 3; ++index) {
          std::vector<std::int64_t> expected(5);
          order.samples_of({1, batch.place().step + step, replica, index}, expected);
          for (const auto sample : expected) EXPECT_EQ(labels[at++], sample);
        }
      }
    }
  }
}

TEST(LoaderTest, EvaluatesEverySampleOnceWithAShortLastBatch) {
  Loader loader(std::make_shared<Numbers>(21),
                evaluation_batches(EvaluationOrder(21, {.batch_size = 8}), {0, 1}),
                {.early_preload = false});
  std::vector<std::int64_t> seen;
  for (auto& batch : loader.epoch(0)) {
    for (const auto label : batch.values<std::int64_t>("label")) seen.push_back(label);
  }
  ASSERT_EQ(seen.size(), 21U);
  for (std::int64_t i = 0; i < 21; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(LoaderTest, AReplicaWithoutABatchToEvaluateGetsNone) {
  Loader loader(std::make_shared<Numbers>(8),
                evaluation_batches(EvaluationOrder(8, {.batch_size = 8, .replicas = 3}), {2, 1}));
  EXPECT_EQ(loader.batches_per_epoch(), 0);
  EXPECT_FALSE(loader.next());
}

TEST(LoaderTest, BeginsInTheMiddleOfAnyEpoch) {
  const auto set = std::make_shared<Numbers>(100);
  Loader walked(set, plan_of(100), {.workers = 1});
  const auto all = deliveries(walked, 3);
  Loader loader(set, plan_of(100), {.workers = 2});
  for (const auto& [epoch, first] : {std::pair{2, 5}, {0, 11}, {1, 0}, {1, 0}, {2, 12}}) {
    auto at = static_cast<std::size_t>(epoch * 12 + first);
    std::int64_t count = 0;
    for (auto& batch : loader.epoch(epoch, first)) {
      EXPECT_EQ(std::memcmp(batch.data(0), all[at++].data(), 8 * 2 * sizeof(float)), 0);
      ++count;
    }
    EXPECT_EQ(count, 12 - first);
  }
}

TEST(LoaderTest, GoesOnWithTheNextEpochByItself) {
  Loader loader(std::make_shared<Numbers>(20), plan_of(20), {.workers = 1});
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(loader.next()->place().epoch, epoch);
    EXPECT_FALSE(loader.next());
  }
}

TEST(LoaderTest, RaisesAWorkersFailureAtTheBatchOfTheSample) {
  const TrainOrder order(100, {8, 1, 1, 1}, {.seed = 11});
  std::vector<std::int64_t> third(8);
  order.samples_of({0, 3, 0, 0}, third);
  for (const int workers : {0, 1, 4}) {
    Loader loader(std::make_shared<Broken>(100, third[5]), plan_of(100), {.workers = workers});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(loader.next());
    const auto index = std::to_string(third[5]);
    expect_error([&] { loader.next(); }, ErrorKind::Data,
                 "loader: epoch 0, sample " + index + " (file-" + index +
                     "): expected sense, found none\nlook elsewhere");
    expect_error([&] { loader.next(); }, ErrorKind::Options, "`begin` was expected");
    loader.begin(0, 4);
    EXPECT_TRUE(loader.next());
  }
}

TEST(LoaderTest, ABatchKeepsItsMemoryUntilItIsReleased) {
  Loader loader(std::make_shared<Numbers>(100), plan_of(100), {.workers = 2, .buffers = 3});
  std::optional<Batch> held = loader.next();
  const std::vector<std::int64_t> before(held->samples().begin(), held->samples().end());
  for (int i = 0; i < 11; ++i) EXPECT_TRUE(loader.next());
  const auto labels = held->values<std::int64_t>("label");
  EXPECT_TRUE(std::equal(before.begin(), before.end(), labels.begin()));
}

TEST(LoaderTest, ABatchOutlivesItsLoader) {
  std::optional<Batch> held;
  {
    Loader loader(std::make_shared<Numbers>(100), plan_of(100));
    held = loader.next();
  }
  EXPECT_EQ(held->values<std::int64_t>("label")[3], held->samples()[3]);
}

TEST(LoaderTest, AReleasedBatchIsEmpty) {
  Loader loader(std::make_shared<Numbers>(100), plan_of(100));
  auto batch = loader.next();
  Batch moved(std::move(*batch));
  EXPECT_EQ(batch->size(), 0);
  EXPECT_EQ(moved.size(), 8);
  moved.release();
  EXPECT_EQ(moved.size(), 0);
  moved.release();  // does nothing
}

TEST(LoaderTest, SaysThatAllBuffersAreHeld) {
  Loader loader(std::make_shared<Numbers>(100), plan_of(100),
                {.workers = 1, .buffers = 2, .patience = 100ms});
  const auto first = loader.next();
  const auto second = loader.next();
  expect_error([&] { loader.next(); }, ErrorKind::Timeout,
               "loader: all 2 buffers have been held for 0.1 s");
}

TEST(LoaderTest, WaitsForABufferThatAnotherThreadReleases) {
  Loader loader(std::make_shared<Numbers>(100), plan_of(100), {.workers = 1, .buffers = 1});
  auto first = loader.next();
  const std::jthread other([&] {
    std::this_thread::sleep_for(20ms);
    first->release();
  });
  EXPECT_EQ(loader.next()->place().number, 1);
}

TEST(LoaderTest, HasAWorkerForEachCoreButOne) {
  const auto cores = owned_cores();
  const auto workers = [&](LoaderOptions options) {
    return Loader(std::make_shared<Numbers>(100), plan_of(100), options).workers();
  };
  EXPECT_EQ(workers({}), std::max(1, cores - 1));
  EXPECT_EQ(workers({.mode = LoaderMode::Sync}), 0);
  EXPECT_EQ(workers({.workers = 3}), 3);
}

/// A plan of the user's own, which does not do what it should.
class BadPlan : public BatchPlan {
 public:
  enum class Fault { InPlace, InSize, InSamples, TooLarge, BeyondTheSet };
  explicit BadPlan(Fault fault) : fault_(fault) {}

  std::uint64_t seed() const override { return 0; }
  std::int64_t batches_per_epoch() const override { return 5; }
  std::int64_t samples_per_batch() const override { return 4; }
  BatchPlace place(std::int64_t epoch, std::int64_t number) const override {
    if (fault_ == Fault::InPlace && number == 2) throw std::runtime_error("no place");
    return {.epoch = epoch, .number = number};
  }
  std::int64_t size(const BatchPlace& place) const override {
    if (fault_ == Fault::InSize && place.number == 2) throw std::runtime_error("no size");
    return fault_ == Fault::TooLarge && place.number == 2 ? 5 : 4;
  }
  void samples(const BatchPlace& place, std::int64_t first,
               std::span<std::int64_t> out) const override {
    if (fault_ == Fault::InSamples && place.number == 2) throw std::runtime_error("no samples");
    for (auto& sample : out) {
      sample = first++ + (fault_ == Fault::BeyondTheSet && place.number == 2 ? 100 : 0);
    }
  }

 private:
  Fault fault_;
};

TEST(LoaderTest, WhatAPlanDoesWrongReachesTheConsumer) {
  using Fault = BadPlan::Fault;
  for (const int workers : {0, 2}) {
    const auto expect_fault = [&](Fault fault, const std::string& text) {
      Loader loader(std::make_shared<Numbers>(100), std::make_shared<BadPlan>(fault),
                    {.workers = workers});
      try {
        for (int i = 0; i < 3; ++i) loader.next();
        ADD_FAILURE() << text;
      } catch (const std::exception& error) {
        EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      }
    };
    expect_fault(Fault::InPlace, "no place");
    expect_fault(Fault::InSize, "no size");
    expect_fault(Fault::InSamples, "loader: epoch 0, batch 2: no samples");
    expect_fault(Fault::TooLarge, "expected 0 to 4 samples from the plan, found 5");
    expect_fault(Fault::BeyondTheSet, "sample 100: expected one of the set's 100 samples");
  }
}

TEST(LoaderTest, MovesAndGoesOn) {
  Loader first(std::make_shared<Numbers>(100), plan_of(100), {.workers = 2});
  EXPECT_EQ(first.next()->place().number, 0);
  Loader second(std::move(first));
  EXPECT_EQ(second.next()->place().number, 1);
}

/// Takes a millisecond for a sample.
class Slow final : public Numbers {
 public:
  using Numbers::Numbers;
  void sample(std::int64_t index, Sample& sample) const override {
    std::this_thread::sleep_for(1ms);
    Numbers::sample(index, sample);
  }
};

TEST(LoaderTest, FillsAheadUpToItsBuffersAndNoFurther) {
  const auto set = std::make_shared<Numbers>(1000);
  class Counting final : public Dataset {
   public:
    explicit Counting(DatasetPtr inner) : Dataset(inner->fields()), inner_(std::move(inner)) {}
    std::int64_t size() const override { return inner_->size(); }
    void sample(std::int64_t index, Sample& sample) const override {
      ++count;
      inner_->sample(index, sample);
    }
    mutable std::atomic<int> count{0};

   private:
    DatasetPtr inner_;
  };
  const auto counting = std::make_shared<Counting>(set);
  const auto wait_for = [&](int count) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (counting->count < count && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return counting->count.load();
  };
  Loader early(counting, plan_of(1000), {.workers = 2, .buffers = 3});
  EXPECT_EQ(wait_for(24), 24);  // before anything was asked for
  early.next();
  EXPECT_EQ(wait_for(32), 32);
  counting->count = 0;
  Loader late(counting, plan_of(1000), {.workers = 2, .buffers = 3, .early_preload = false});
  late.next();
  EXPECT_EQ(wait_for(32), 32);
  counting->count = 0;
  Loader sync(counting, plan_of(1000), {.mode = LoaderMode::Sync, .workers = 2});
  sync.next();
  EXPECT_EQ(counting->count, 8);
}

TEST(LoaderTest, EndsAtOnceInTheMiddleOfAnEpoch) {
  const auto start = std::chrono::steady_clock::now();
  {
    // Filling all of its buffers would take two minutes.
    Loader loader(std::make_shared<Slow>(250'000), plan_of(250'000, {1000, 1, 1, 1}),
                  {.workers = 2, .buffers = 240});
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

/// Counts the samples that have been read, and remembers the thread that read the latest one.
class Counted final : public Numbers {
 public:
  using Numbers::Numbers;
  void sample(std::int64_t index, Sample& sample) const override {
    Numbers::sample(index, sample);
    reader = ::gettid();
    ++count;
  }
  mutable std::atomic<int> count{0};
  mutable std::atomic<pid_t> reader{0};
};

TEST(LoaderTest, MeasuresWhoWaited) {
  constexpr auto kTimePerBatch = 2ms;  // of the consumer
  const auto set = std::make_shared<Counted>(100);
  Loader loader(set, plan_of(100), {.workers = 1, .buffers = 2});
  for (int filled = 2;; ++filled) {
    // The consumer is slower than the worker: whenever it asks for a batch, both buffers are full
    // and the worker sleeps. The worker goes on into the next epoch.
    ASSERT_TRUE(
        eventually([&] { return set->count == 8 * filled && is_asleep(set->reader); }, 20s));
    std::this_thread::sleep_for(kTimePerBatch);
    if (!loader.next()) break;
  }
  const auto statistics = loader.statistics();
  EXPECT_EQ(statistics.batches, 12);
  EXPECT_EQ(statistics.samples, 96);
  EXPECT_GE(statistics.producers_waited, 12 * kTimePerBatch);
  // The worker also waits while the consumer is in `next`.
  EXPECT_LT(statistics.consumer_waited, statistics.producers_waited);
}

TEST(LoaderTest, GivesPicturesToThePipelineAndLeavesTheRest) {
  const auto set = synthetic({.size = 64, .height = 8, .width = 8});
  Loader loader(set, plan_of(64),
                {.pipeline = Pipeline{{Resize{16, 16}}, {DataType::U8, Layout::ChannelsLast}}});
  EXPECT_EQ(loader.fields()[0].shape, (std::vector<std::int64_t>{16, 16, 3}));
  const auto batch = loader.next();
  EXPECT_EQ(batch->values<std::uint8_t>("image").size(), 8U * 16 * 16 * 3);
  EXPECT_EQ(batch->values<std::int64_t>("label").size(), 8U);
}

TEST(LoaderTest, BuffersBeginAtCacheLinesAndCanBeHandedIn) {
  std::atomic<int> allocations{0};
  Loader loader(std::make_shared<Numbers>(100), plan_of(100),
                {.buffers = 3, .allocate = [&](std::size_t bytes) {
                   ++allocations;
                   return allocate_pages(bytes);
                 }});
  EXPECT_EQ(allocations, 3);
  const auto batch = loader.next();
  for (std::size_t field = 0; field < 3; ++field) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch->data(field)) % 64, 0U);
  }
}

/// Writes nothing.
class Empty final : public Dataset {
 public:
  Empty() : Dataset({{"x", DataType::F32, {2}}}) {}
  std::int64_t size() const override { return 100; }
  void sample(std::int64_t /*index*/, Sample& /*sample*/) const override {}
};

class AnySize final : public Dataset {
 public:
  AnySize() : Dataset({{"image", DataType::U8, {0, 0, 3}, FieldKind::AnySizeImage}}) {}
  std::int64_t size() const override { return 100; }
  void sample(std::int64_t index, Sample& sample) const override {
    for (auto& pixel : sample.write_image(0, {index % 7 + 1, 5})) pixel = 9;
  }
};

TEST(LoaderTest, RefusesWhatCannotBeMeant) {
  const auto set = std::make_shared<Numbers>(100);
  const auto make = [&](LoaderOptions options) { Loader(set, plan_of(100), options); };
  expect_error([&] { make({.workers = -1}); }, ErrorKind::Options,
               "loader: workers: expected 0 to 1024, found -1");
  expect_error([&] { make({.buffers = 0}); }, ErrorKind::Options,
               "loader: buffers: expected 1 to 65536, found 0");
  expect_error([&] { make({.pipeline = Pipeline{}}); }, ErrorKind::Options,
               "expected one of the fields square, tokens, label, found 'image'");
  expect_error([&] { Loader(nullptr, plan_of(100)); }, ErrorKind::Options, "a null pointer");
  expect_error([&] { Loader(set, nullptr); }, ErrorKind::Options, "expected a plan");
  expect_error([&] { Loader(std::make_shared<AnySize>(), plan_of(100)); }, ErrorKind::Options,
               "pictures of one size were expected");
  expect_error([&] { Loader(std::make_shared<Empty>(), plan_of(100)).next(); }, ErrorKind::Options,
               "expected a value for field 'x', but Dataset::sample wrote none");
  Loader loader(set, plan_of(100));
  expect_error([&] { loader.begin(0, 13); }, ErrorKind::Options, "a batch of 0 to 12");
  expect_error([&] { loader.begin(-1); }, ErrorKind::Options, "found epoch -1");
  expect_error([&] { loader.begin(std::int64_t{1} << 32); }, ErrorKind::Options,
               "expected an epoch of 0 to 4294967295");
  expect_error(
      [&] { make({.allocate = [](std::size_t) { return std::shared_ptr<std::byte>(); }}); },
      ErrorKind::Options, "that begins at a multiple of 64");
  const auto batch = loader.next();
  expect_error([&] { batch->values<double>(0); }, ErrorKind::Options,
               "expected to be read as f32, its type, found f64");
  expect_error([&] { batch->lengths(0); }, ErrorKind::Options, "expected one of varying length");
  expect_error([&] { batch->values<float>("images"); }, ErrorKind::Options, "found 'images'");
}

TEST(LoaderModeTest, HasNames) {
  EXPECT_EQ(parse_loader_mode("sync"), LoaderMode::Sync);
  EXPECT_EQ(parse_loader_mode("async"), LoaderMode::Async);
  EXPECT_EQ(parse_loader_mode("rebatched"), LoaderMode::Async);
  EXPECT_EQ(name_of(LoaderMode::Sync), "sync");
  expect_error([] { parse_loader_mode("later"); }, ErrorKind::Options,
               "expected sync, async or rebatched, found 'later'");
}

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return 0;
}

TEST(LoaderTest, AThousandEpochsTakeNoMoreMemoryThanTen) {
  const auto set = synthetic({.size = 200, .height = 16, .width = 16});
  Loader loader(set, plan_of(200),
                {.workers = 2,
                 .pipeline = Pipeline{{RandomCrop{16, 16, 2}, RandomHorizontalFlip{}},
                                      {DataType::F32, Layout::ChannelsLast}}});
  std::int64_t samples = 0;
  std::int64_t after_ten = 0;
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch) {
    for (auto& batch : loader.epoch(epoch)) samples += batch.size();
    if (epoch == 10) after_ten = resident_kib();
  }
  EXPECT_EQ(samples, 200'000);
  EXPECT_LT(resident_kib(), after_ten + 2048);
}

}  // namespace
}  // namespace lockstep::data
