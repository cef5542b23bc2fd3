#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/local/local_group.h"
#include "lockstep/comm/sharded_update.h"

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;

/// Writes down what begins and ends.
class Listener final : public events::StatusSink {
 public:
  void enter(events::Phase /*phase*/) noexcept override {}
  void on(const events::StepsDone& /*event*/) noexcept override {}
  void note_device_memory(std::int64_t /*bytes*/) noexcept override {}
  void enter_collective(std::string_view name) noexcept override {
    const std::lock_guard lock(mutex_);
    heard_.emplace_back(name);
  }
  void leave_collective() noexcept override {
    const std::lock_guard lock(mutex_);
    heard_.emplace_back("done");
  }
  std::vector<std::string> take() { return std::exchange(heard_, {}); }

 private:
  std::mutex mutex_;
  std::vector<std::string> heard_;
};

TEST(WatchedCollectivesTest, AreToldByNameWhenTheyBeginAndEnd) {
  local::run_threads(2, [](Communicator& communicator) {
    Listener listener;
    float value = 1;
    communicator.barrier("unheard");
    communicator.watch(&listener);
    communicator.barrier("epoch");
    communicator.all_reduce({&value, 1, DataType::F32, "loss"});
    communicator.async().barrier().wait();
    EXPECT_THAT(listener.take(),
                ElementsAre("barrier epoch", "done", "all_reduce loss", "done", "barrier", "done"));
    communicator.watch(nullptr);
    communicator.barrier("unheard");
    EXPECT_THAT(listener.take(), ElementsAre());
  });
}

TEST(WatchedCollectivesTest, AreToldAsLongAsTheListenerLivesAndToTheLatestAlone) {
  local::run_threads(1, [](Communicator& communicator) {
    Listener first;
    Listener second;
    auto watched = std::make_unique<WatchedCollectives>(communicator, &first);
    const auto watched_again = std::make_unique<WatchedCollectives>(communicator, &second);
    watched.reset();
    communicator.barrier("epoch");
    EXPECT_THAT(first.take(), ElementsAre());
    EXPECT_THAT(second.take(), ElementsAre("barrier epoch", "done"));
    EXPECT_EQ(communicator.watched_by(), &second);
  });
}

TEST(WatchedCollectivesTest, AreToldOfGroupsMadeBeforeAndAfter) {
  local::run_threads(3, [](Communicator& communicator) {
    Listener listener;
    if (communicator.rank() == 2) return;
    auto& before = communicator.group({0, 1});
    communicator.watch(&listener);
    before.barrier("pair");
    EXPECT_THAT(listener.take(), ElementsAre("barrier pair", "done"));
    if (communicator.rank() == 0) communicator.group({0}).barrier("alone");
    if (communicator.rank() == 0) {
      EXPECT_THAT(listener.take(), ElementsAre("barrier alone", "done"));
    }
    communicator.watch(nullptr);
  });
}

TEST(WatchedCollectivesTest, AreDoneWhenTheyFailToo) {
  local::run_threads(1, [](Communicator& communicator) {
    Listener listener;
    communicator.watch(&listener);
    communicator.report_failure(Error(ErrorKind::Diverged, "the loss is nan"));
    EXPECT_THROW(communicator.barrier("end"), Error);
    EXPECT_THAT(listener.take(), ElementsAre("barrier end", "done"));
    communicator.watch(nullptr);
  });
}

/// Writes down what a thread did.
class Spans final : public events::SpanSink {
 public:
  void on(const events::Span& span) noexcept override { spans.push_back(span); }
  std::vector<events::Span> spans;
};

TEST(WatchedCollectivesTest, AWaitForLeavesIsASpan) {
  local::run_threads(2, [](Communicator& communicator) {
    ShardedUpdate updates(communicator, {.count = 8, .state_bytes = 32}, "weights");
    updates.publish();
    std::fill_n(static_cast<float*>(updates.leaf()), 8, 1.0F);
    updates.take_leaf();
    Spans spans;
    if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    updates.reduce({.spans = &spans, .step = 7});
    updates.commit();
    if (communicator.rank() == 1) return;
    const auto found = std::ranges::find(spans.spans, events::SpanKind::Wait, &events::Span::kind);
    ASSERT_NE(found, spans.spans.end());
    EXPECT_EQ(found->step, 7);
    EXPECT_LE(found->begin, found->end);
    EXPECT_EQ(updates.waited_for_hosts(), 0);
  });
}

}  // namespace
}  // namespace lockstep::comm
