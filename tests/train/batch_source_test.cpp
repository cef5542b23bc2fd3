#include "lockstep/train/backends/batch_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>

#include "tests/support/subprocess.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::is_asleep;

/// Numbers that can be read once a gate is open.
class Gated final : public data::Dataset {
 public:
  Gated() : Dataset({{"number", DataType::I64, {}}}) {}

  std::int64_t size() const override { return 8; }
  void sample(std::int64_t index, data::Sample& sample) const override {
    is_read = true;
    gate.wait();
    sample.set<std::int64_t>(0, index);
  }

  mutable std::atomic<bool> is_read{false};
  mutable std::latch gate{1};
};

/// Batches of one sample each, for replicas that a function names.
class Dealt final : public data::BatchPlan {
 public:
  using ReplicaOf = std::function<int(std::int64_t number)>;
  explicit Dealt(ReplicaOf replica_of) : replica_of_(std::move(replica_of)) {}

  std::uint64_t seed() const override { return 0; }
  std::int64_t batches_per_epoch() const override { return 8; }
  std::int64_t samples_per_batch() const override { return 1; }
  data::BatchPlace place(std::int64_t epoch, std::int64_t number) const override {
    return {.epoch = epoch, .number = number, .replica = replica_of_(number)};
  }
  std::int64_t size(const data::BatchPlace& /*place*/) const override { return 1; }
  void samples(const data::BatchPlace& place, std::int64_t /*first*/,
               std::span<std::int64_t> out) const override {
    out[0] = place.number;
  }

 private:
  ReplicaOf replica_of_;
};

/// Two buffers, and nobody but who asks fills them.
data::Loader loader_of(const data::DatasetPtr& set, Dealt::ReplicaOf replica_of) {
  return {set,
          std::make_shared<Dealt>(std::move(replica_of)),
          {.mode = data::LoaderMode::Sync, .workers = 0, .buffers = 2, .patience = 20s}};
}

/// Replicas 3 and 4 are this instance's.
constexpr topology::ReplicaRange kLocal{3, 2};

TEST(BatchSourceTest, HandsEachReplicaItsOwnBatchesInOrder) {
  const auto set = std::make_shared<Gated>();
  set->gate.count_down();
  auto loader = loader_of(set, [](auto number) { return 3 + static_cast<int>(number % 2); });
  BatchSource source(loader, kLocal);
  const auto number_for = [&](int which) { return source.next(3 + which)->place().number; };
  EXPECT_EQ(number_for(1), 1);
  EXPECT_EQ(number_for(0), 0);
  EXPECT_EQ(number_for(0), 2);
  EXPECT_EQ(number_for(0), 4);
  EXPECT_EQ(number_for(1), 3);
}

TEST(BatchSourceTest, ServesWhoCameWhileAnotherFoundItsBatches) {
  const auto set = std::make_shared<Gated>();
  // As many of the second replica's in a row as there are buffers: the first gets none of its own
  // before the second has taken them.
  auto loader = loader_of(set, [](auto number) { return number < 2 ? 4 : 3; });
  BatchSource source(loader, kLocal);
  auto first = std::async(std::launch::async, [&] { return source.next(3)->place().number; });
  EXPECT_TRUE(eventually([&] { return set->is_read.load(); }, 20s));
  std::atomic<pid_t> thread{0};
  auto second = std::async(std::launch::async, [&] {
    thread = ::gettid();
    return source.next(4)->place().number;
  });
  EXPECT_TRUE(eventually([&] { return thread != 0 && is_asleep(thread); }, 20s));
  set->gate.count_down();
  EXPECT_EQ(second.get(), 0);
  EXPECT_EQ(first.get(), 2);
}

TEST(BatchSourceTest, KeepsNothingForWhoHasGivenUp) {
  const auto set = std::make_shared<Gated>();
  set->gate.count_down();
  auto loader = loader_of(set, [](auto number) { return number < 6 ? 4 : 3; });
  BatchSource source(loader, kLocal);
  source.give_up();
  EXPECT_EQ(source.next(3)->place().number, 6);
}

}  // namespace
}  // namespace lockstep::train
