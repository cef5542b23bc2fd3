#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/local/local_group.h"

/// What becomes of a wait for somebody who is late.
namespace lockstep::comm {
namespace {

using local::run_threads;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// Collects warnings of several threads.
class Warnings {
 public:
  std::function<void(const std::string&)> sink() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

void wait_until(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::sleep_for(1ms);
}

TEST(WaitingTest, WarnsOnceOfWhoIsLateAndGoesOn) {
  Warnings warnings;
  run_threads(3,
              [&](Communicator& communicator) {
                communicator.barrier();
                if (communicator.rank() == 2) {
                  while (warnings.lines().empty()) std::this_thread::sleep_for(1ms);
                  std::this_thread::sleep_for(2s);  // time for a second warning that must not come
                }
                std::vector<float> values(10, 1.0F);
                communicator.all_reduce(buffer_of(values, "layer3"));
                EXPECT_EQ(values.front(), 3.0F);
              },
              {.warn_after = 1500ms, .warn = warnings.sink()});
  EXPECT_THAT(warnings.lines(), ElementsAre(ContainsRegex(
                                    "^all_reduce #2 \"layer3\": instance 2 \\(host [^ ]+, pid "
                                    "[0-9]+\\) has not arrived after [0-9]+ s; it finished #1")));
}

TEST(WaitingTest, ReportsAStallOnceForWhoIsLateAndOnceForWhoIsGivenUp) {
  std::mutex mutex;
  std::vector<Stall> stalls;
  const auto job = [&] {
    run_threads(3,
                [&](Communicator& communicator) {
                  communicator.barrier();
                  while (communicator.rank() == 1) {  // until the others have given up
                    std::this_thread::sleep_for(1ms);
                    const std::lock_guard lock(mutex);
                    if (!stalls.empty() && stalls.back().kind == Stall::Kind::Overdue) return;
                  }
                  communicator.barrier("end");
                },
                {.warn_after = 1500ms, .stall_timeout = 4s, .stalled = [&](const Stall& stall) {
                   const std::lock_guard lock(mutex);
                   stalls.push_back(stall);
                 }});
  };
  EXPECT_THROW(job(), Error);
  ASSERT_EQ(stalls.size(), 2U);
  EXPECT_EQ(stalls[0].instance, 1);
  EXPECT_EQ(stalls[0].kind, Stall::Kind::Late);
  EXPECT_THAT(stalls[0].what, ContainsRegex("^barrier #2 \"end\": instance 1 \\(host"));
  EXPECT_EQ(stalls[1].instance, 1);
  EXPECT_EQ(stalls[1].kind, Stall::Kind::Overdue);
}

TEST(WaitingTest, GivesUpAtTheDeadlineOnEveryInstanceThatWaits) {
  std::atomic<int> failed = 0;
  const auto job = [&] {
    run_threads(4,
                [&](Communicator& communicator) {
                  communicator.barrier();
                  if (communicator.rank() >= 2) {
                    while (failed < 2) std::this_thread::sleep_for(1ms);
                    return;
                  }
                  try {
                    communicator.barrier("epoch");
                    ADD_FAILURE() << "passed";
                  } catch (const Error& error) {
                    EXPECT_EQ(error.kind(), ErrorKind::Timeout);
                    EXPECT_THAT(error.what(), HasSubstr("barrier #2 \"epoch\": instance 2 (host "));
                    EXPECT_THAT(error.what(), HasSubstr("; instance 3 (host ")) << "both are named";
                    ++failed;
                    throw;
                  }
                },
                {.stall_timeout = 3s});
  };
  EXPECT_THROW(job(), Error);
  EXPECT_EQ(failed, 2);
}

TEST(WaitingTest, WithoutADeadlineItWaitsButStillMissesWhoLeaves) {
  const auto begin = std::chrono::steady_clock::now();
  const auto job = [&] {
    run_threads(2,
                [](Communicator& communicator) {
                  communicator.barrier();
                  if (communicator.rank() == 1) {
                    std::this_thread::sleep_for(300ms);
                    return;
                  }
                  communicator.barrier();
                },
                {.stall_timeout = 0s});
  };
  try {
    job();
    ADD_FAILURE() << "passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
    EXPECT_THAT(error.what(), HasSubstr("instance 1 (host "));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST(WaitingTest, AHeartbeatBeginsTheTimeAnewAndSaysWhatTakesLong) {
  Warnings warnings;
  run_threads(2,
              [&](Communicator& communicator) {
                if (communicator.rank() == 1) {
                  // In all for longer than the deadline.
                  for (int beat = 0; beat < 60; ++beat) {
                    communicator.heartbeat("compiling");
                    std::this_thread::sleep_for(100ms);
                  }
                  communicator.heartbeat("evaluating");
                  while (warnings.lines().empty()) std::this_thread::sleep_for(1ms);
                }
                communicator.barrier();
              },
              {.warn_after = 2s, .stall_timeout = 5s, .warn = warnings.sink()});
  EXPECT_THAT(warnings.lines(), ElementsAre(ContainsRegex("it said \"evaluating\" [0-9]+ s ago")));
}

TEST(WaitingTest, TellsInWhichOperationOfAnotherGroupTheLateOneWaits) {
  const auto job = [] {
    run_threads(3,
                [](Communicator& communicator) {
                  // 0 and 1 make the group, then 0 waits for all and 1 for the group: neither
                  // comes.
                  if (communicator.rank() == 2) return communicator.barrier();
                  auto& group = communicator.group({0, 1});
                  if (communicator.rank() == 0) return communicator.barrier();
                  group.barrier("inner");
                },
                {.stall_timeout = 2s});
  };
  try {
    job();
    ADD_FAILURE() << "passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Timeout);
    EXPECT_THAT(error.what(), HasSubstr("; it waits in barrier #1")) << error.what();
  }
}

TEST(WaitingTest, WhoWaitsForABusyOneInAnotherGroupIsNotLateEither) {
  run_threads(3,
              [](Communicator& communicator) {
                if (communicator.rank() > 0) {
                  auto& group = communicator.group({1, 2});
                  if (communicator.rank() == 2) {
                    // In all for longer than the deadline.
                    for (int beat = 0; beat < 40; ++beat) {
                      communicator.heartbeat("evaluating");
                      std::this_thread::sleep_for(100ms);
                    }
                  }
                  group.barrier();
                }
                communicator.barrier();
              },
              {.stall_timeout = 3s});
}

TEST(WaitingTest, TwoGroupsThatAreLateAtOnceWarnOnceEach) {
  Warnings warnings;
  run_threads(4,
              [](Communicator& communicator) {
                const bool is_low = communicator.rank() < 2;
                auto& group = communicator.group(is_low ? std::vector{0, 1} : std::vector{2, 3});
                if (communicator.rank() % 2 == 1) std::this_thread::sleep_for(3s);
                group.barrier();
              },
              {.warn_after = 1500ms, .warn = warnings.sink()});
  EXPECT_EQ(warnings.lines().size(), 2U);
}

TEST(WaitingTest, SleepsInTheKernelWhileItWaitsLong) {
  const auto cpu_time = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  run_threads(2, [&](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 1) std::this_thread::sleep_for(1s);
    const auto begin = cpu_time();
    communicator.barrier();
    EXPECT_LT(cpu_time() - begin, 200ms);
  });
}

TEST(WaitingTest, ManyMoreInstancesThanCoresGetOn) {
  run_threads(24, [](Communicator& communicator) {
    std::vector<float> values(1000);
    for (int i = 0; i < 300; ++i) communicator.all_reduce(buffer_of(values));
  });
}

TEST(WaitingTest, AnErrorOfAsynchronousWorkIsThrownByWaitAndByWhatFollows) {
  std::atomic<bool> is_done = false;
  const auto job = [&] {
    run_threads(2,
                [&](Communicator& communicator) {
                  if (communicator.rank() == 1) return wait_until(is_done);
                  std::vector<float> values(10);
                  auto work = communicator.async().all_reduce(buffer_of(values));
                  EXPECT_THROW(work.wait(), Error);
                  EXPECT_THROW(communicator.barrier(), Error);
                  is_done = true;
                },
                {.stall_timeout = 2s});
  };
  job();
}

}  // namespace
}  // namespace lockstep::comm
