#include "lockstep/train/batch_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/base/file.h"
#include "tests/support/subprocess.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using testing::eventually;

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

data::BatchPlanPtr batches_of_one() {
  return data::micro_batches(data::TrainOrder(8, {.batch_size = 1}, {.shuffle = false}), {0, 1});
}

/// Two buffers, and nobody but who asks fills them.
data::Loader loader_of(const data::DatasetPtr& set) {
  return {set,
          batches_of_one(),
          {.mode = data::LoaderMode::Sync, .workers = 0, .buffers = 2, .patience = 20s}};
}

bool is_asleep(pid_t thread) {
  const auto text = read_file("/proc/self/task/" + std::to_string(thread) + "/stat");
  return text.substr(text.rfind(')') + 2, 1) == "S";
}

TEST(BatchSourceTest, HandsEachDeviceItsOwnBatchesInOrder) {
  const auto set = std::make_shared<Gated>();
  set->gate.count_down();
  auto loader = loader_of(set);
  BatchSource source(loader, 2, [](const data::BatchPlace& place) { return place.number % 2; });
  const auto number_for = [&](int device) { return source.next(device)->place().number; };
  EXPECT_EQ(number_for(1), 1);
  EXPECT_EQ(number_for(0), 0);
  EXPECT_EQ(number_for(0), 2);
  EXPECT_EQ(number_for(0), 4);
  EXPECT_EQ(number_for(1), 3);
}

TEST(BatchSourceTest, ServesWhoCameWhileAnotherFoundItsBatches) {
  const auto set = std::make_shared<Gated>();
  auto loader = loader_of(set);
  // As many of the second device's in a row as there are buffers: the first gets none of its own
  // before the second has taken them.
  BatchSource source(loader, 2, [](const data::BatchPlace& place) { return place.number < 2; });
  auto first = std::async(std::launch::async, [&] { return source.next(0)->place().number; });
  EXPECT_TRUE(eventually([&] { return set->is_read.load(); }, 20s));
  std::atomic<pid_t> thread{0};
  auto second = std::async(std::launch::async, [&] {
    thread = ::gettid();
    return source.next(1)->place().number;
  });
  EXPECT_TRUE(eventually([&] { return thread != 0 && is_asleep(thread); }, 20s));
  set->gate.count_down();
  EXPECT_EQ(second.get(), 0);
  EXPECT_EQ(first.get(), 2);
}

TEST(BatchSourceTest, KeepsNothingForWhoHasGivenUp) {
  const auto set = std::make_shared<Gated>();
  set->gate.count_down();
  auto loader = loader_of(set);
  BatchSource source(loader, 2, [](const data::BatchPlace& place) { return place.number < 6; });
  source.give_up();
  EXPECT_EQ(source.next(0)->place().number, 6);
}

}  // namespace
}  // namespace lockstep::train
