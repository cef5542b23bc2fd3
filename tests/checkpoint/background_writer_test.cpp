#include "lockstep/checkpoint/background_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <future>
#include <stdexcept>
#include <thread>

#include "tests/checkpoint/made_content.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

using testing::holds;
using testing::made_content;
using testing::ScratchFolder;
using testing::step_name;

TEST(BackgroundWriterTest, WritesOnAThreadOfItsOwn) {
  const ScratchFolder scratch;
  BackgroundWriter writer(CheckpointFolder(scratch.path(), {}));
  EXPECT_EQ(writer.path(), scratch.path());
  EXPECT_FALSE(writer.is_busy());
  std::promise<void> may_go_on;
  std::thread::id thread;
  writer.begin([&, wait = may_go_on.get_future().share()] {
    wait.wait();
    thread = std::this_thread::get_id();
    return made_content(3);
  });
  EXPECT_TRUE(writer.is_busy());
  EXPECT_TRUE(writer.take_results().empty());
  may_go_on.set_value();
  writer.wait();
  EXPECT_FALSE(writer.is_busy());
  EXPECT_NE(thread, std::this_thread::get_id());
  const auto results = writer.take_results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].step, 3);
  EXPECT_EQ(results[0].reason, "interval");
  EXPECT_EQ(results[0].path, scratch.path() + "/" + step_name(3));
  EXPECT_EQ(results[0].error, "");
  EXPECT_GT(results[0].cpu_seconds, 0);
  EXPECT_GE(results[0].seconds, results[0].cpu_seconds);
  EXPECT_TRUE(holds(Checkpoint::open(results[0].path), made_content(3)));
  EXPECT_TRUE(writer.take_results().empty());
}

TEST(BackgroundWriterTest, CountsTheWorkOfItsThreadAndNotItsWaiting) {
  const ScratchFolder scratch;
  BackgroundWriter writer(CheckpointFolder(scratch.path(), {}));
  std::promise<void> may_go_on;
  writer.begin([&] {
    may_go_on.get_future().wait_for(std::chrono::milliseconds(300));
    return made_content(1);
  });
  writer.wait();
  const auto results = writer.take_results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_GE(results[0].seconds, 0.3);
  EXPECT_LT(results[0].cpu_seconds, results[0].seconds - 0.25);
}

TEST(BackgroundWriterTest, WritesOneAfterTheOther) {
  const ScratchFolder scratch;
  BackgroundWriter writer(CheckpointFolder(scratch.path(), {.last = 100}));
  for (int step = 1; step <= 20; ++step) {
    writer.begin([step] { return made_content(step); });
  }
  writer.wait();
  std::vector<std::int64_t> steps;
  for (const auto& written : writer.take_results()) {
    EXPECT_EQ(written.error, "");
    steps.push_back(written.step);
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                                            17, 18, 19, 20));
}

TEST(BackgroundWriterTest, TellsOfFailuresAndGoesOn) {
  const ScratchFolder scratch;
  BackgroundWriter writer(CheckpointFolder(scratch.path(), {}));
  writer.begin([] { return made_content(1); });
  writer.begin([]() -> Content { throw std::runtime_error("no memory for a copy"); });
  writer.begin([] {
    auto content = made_content(2);
    content.state.tensors[0].name = "__metadata__";
    return content;
  });
  writer.begin([] { return made_content(3); });
  writer.wait();
  const auto results = writer.take_results();
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[1].error, "no memory for a copy");
  EXPECT_TRUE(results[1].path.empty());
  EXPECT_EQ(results[2].step, 2);
  EXPECT_EQ(results[2].reason, "interval");
  EXPECT_THAT(results[2].error, ::testing::HasSubstr("cannot be called '__metadata__'"));
  EXPECT_TRUE(results[2].path.empty());
  EXPECT_EQ(results[3].error, "");
  EXPECT_EQ(testing::names_in(scratch.path()),
            (std::vector<std::string>{step_name(1), step_name(3)}));
}

TEST(BackgroundWriterTest, GivesBackMemoryBeforeItIsDone) {
  const ScratchFolder scratch;
  BackgroundWriter writer(CheckpointFolder(scratch.path(), {}));
  auto memory = std::make_shared<std::vector<std::byte>>(64);
  const std::weak_ptr<std::vector<std::byte>> watched = memory;
  writer.begin([held = std::move(memory)] {
    auto content = made_content(1);
    content.weights.memory.push_back(held);
    return content;
  });
  writer.wait();
  EXPECT_TRUE(watched.expired());
}

TEST(BackgroundWriterTest, FinishesWhatWasBegunBeforeItGoes) {
  const ScratchFolder scratch;
  {
    BackgroundWriter writer(CheckpointFolder(scratch.path(), {}));
    writer.begin([] { return made_content(1, 0, 100'000); });
  }
  EXPECT_TRUE(holds(*newest_checkpoint(scratch.path(), nullptr), made_content(1, 0, 100'000)));
  CheckpointFolder(scratch.path(), {});  // and lets go of the lock
}

TEST(BackgroundWriterTest, LeavesSignalsToOthers) {
  const ScratchFolder scratch;
  BackgroundWriter writer(CheckpointFolder(scratch.path(), {}));
  sigset_t theirs;
  ::sigemptyset(&theirs);
  writer.begin([&] {
    ::pthread_sigmask(SIG_SETMASK, nullptr, &theirs);
    return made_content(1);
  });
  writer.wait();
  sigset_t ours;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &ours);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGXFSZ, SIGCHLD}) {
    EXPECT_EQ(::sigismember(&theirs, signal), 1) << signal;
    EXPECT_EQ(::sigismember(&ours, signal), 0) << signal;
  }
}

TEST(BackgroundWriterTest, RefusesNothingAtAll) {
  const ScratchFolder scratch;
  BackgroundWriter writer(CheckpointFolder(scratch.path(), {}));
  testing::expect_error([&] { writer.begin(nullptr); }, ErrorKind::Bug, "found nothing");
}

}  // namespace
}  // namespace lockstep::checkpoint
