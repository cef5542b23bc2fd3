#include "bench/comm/worker.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <set>
#include <thread>

#include "bench/comm/protocol.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::bench {
namespace {

/// A system that is alone, so that everybody's values are its own; it may spoil the last one of
/// a result.
class LonelyCollectives final : public Collectives {
 public:
  explicit LonelyCollectives(float error) : error_(error) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }

  void barrier() override { ++barriers; }
  void all_reduce(std::span<float> values) override { values.back() += error_; }
  std::span<const float> reduce_scatter(std::span<float> blocks, std::span<float> block) override {
    all_gather(blocks, block);
    return block;
  }
  void all_gather(std::span<const float> block, std::span<float> blocks) override {
    std::copy(block.begin(), block.end(), blocks.begin());
    blocks.back() += error_;
  }
  void broadcast(std::span<float> values) override { values.back() += error_; }

  int barriers = 0;

 private:
  float error_;
};

/// A worker in a thread, and the driver's end of its socket.
class BenchWorkerTest : public ::testing::TestWithParam<Collective> {
 protected:
  void start(float error) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    driver_ = UniqueFd(ends[0]);
    thread_ = std::thread([this, error, end = ends[1]] {
      const UniqueFd socket(end);
      LonelyCollectives system(error);
      answer_requests(system, socket.get());
      barriers_ = system.barriers;
    });
  }

  /// Closing its socket is what ends a worker.
  void finish() {
    driver_.reset();
    if (thread_.joinable()) thread_.join();
  }
  void TearDown() override { finish(); }

  Verdict verify(std::int64_t bytes) {
    Verdict verdict;
    ask({Request::Task::Verify, GetParam(), 1, bytes});
    EXPECT_EQ(receive_packet(driver_.get(), bytes_of(verdict)), sizeof verdict);
    return verdict;
  }

  void ask(Request request) { EXPECT_TRUE(send_packet(driver_.get(), bytes_of(request))); }

  UniqueFd driver_;
  std::thread thread_;
  int barriers_ = 0;
};

TEST_P(BenchWorkerTest, FindsARightResultRightAtEverySize) {
  start(0);
  for (const auto bytes : {4, 4096, 40, 1 << 20}) EXPECT_EQ(verify(bytes).first_wrong, -1);
}

TEST_P(BenchWorkerTest, FindsASingleWrongElement) {
  start(1);
  const auto verdict = verify(4096);
  EXPECT_EQ(verdict.first_wrong, 1023);
  EXPECT_EQ(verdict.found, verdict.expected + 1);
}

TEST_P(BenchWorkerTest, TimesEachRepetitionBetweenBarriers) {
  start(0);
  ask({Request::Task::Measure, GetParam(), 5, 4096});
  std::array<Nanoseconds, 5> times{};
  EXPECT_EQ(receive_packet(driver_.get(), std::as_writable_bytes(std::span(times))), sizeof times);
  for (const auto time : times) EXPECT_GT(time, 0);
  finish();
  EXPECT_EQ(barriers_, 10);
}

INSTANTIATE_TEST_SUITE_P(All, BenchWorkerTest, ::testing::ValuesIn(kCollectives),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(BroughtValueTest, DiffersBetweenRanksPositionsAndRepetitionsAndIsExactInSums) {
  constexpr int kCount = 16;
  std::set<float> by_rank;
  std::set<float> by_position;
  std::set<float> by_repetition;
  for (int i = 0; i < kCount; ++i) {
    by_rank.insert(input_value(i, 5, 7));
    by_position.insert(input_value(3, i, 7));
    by_repetition.insert(input_value(3, 5, i));
  }
  for (const auto& values : {by_rank, by_position, by_repetition}) {
    EXPECT_EQ(values.size(), kCount);
    for (const auto value : values) {
      EXPECT_EQ(value, static_cast<float>(static_cast<int>(value)));
      EXPECT_GE(value, 0);
      EXPECT_LT(value, 4096);
    }
  }
}

TEST(BenchProtocolTest, RefusesAPathThatNoSocketCanHave) {
  try {
    driver_address("/" + std::string(101, 'a'));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io);
    EXPECT_STREQ(error.what(), ("bench comm: the path of a socket has at most 107 letters, found "
                                "109: /" +
                                std::string(101, 'a') + "/driver")
                                   .c_str());
    EXPECT_EQ(error.hint(), "set TMPDIR to a folder with a shorter path, such as /tmp");
  }
  EXPECT_NO_THROW(driver_address("/" + std::string(99, 'a')));
}

TEST(WorkerMainTest, SaysWhoStartsIt) {
  std::array<char*, 1> arguments{const_cast<char*>("lockstep-bench-x")};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(worker_main(arguments, [](const std::string&) { FAIL(); }), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "lockstep: this program is started by 'lockstep bench comm'\n");
}

TEST(WorkerMainTest, PrintsWhatWasThrown) {
  std::array<char*, 2> arguments{const_cast<char*>("lockstep-bench-x"), const_cast<char*>("/f")};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(worker_main(arguments,
                        [](const std::string& folder) {
                          throw Error(ErrorKind::Unavailable, "no " + folder, "another");
                        }),
            4);
  EXPECT_EQ(worker_main(arguments, [](const std::string&) { throw std::runtime_error("broken"); }),
            5);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "lockstep: no /f\n  try: another\nlockstep: lockstep-bench-x: broken\n");
}

}  // namespace
}  // namespace lockstep::bench
