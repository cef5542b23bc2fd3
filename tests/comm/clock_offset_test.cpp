#include "lockstep/comm/clock_offset.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>

#include "lockstep/comm/local/local_group.h"

namespace lockstep::comm {
namespace {

constexpr int kRanks = 3;
constexpr int kOther = 2;

/// Nanoseconds that the fastest message takes in each direction.
struct FastestMessages {
  std::int64_t to_first = 0;
  std::int64_t to_other = 0;
};

/// The clocks of rank 0 and of rank `kOther`, whose messages take given times. The two ranks read
/// their clocks in turn. A reader that has not read last has just received a message.
class FakeClocks {
 public:
  FakeClocks(std::int64_t offset, FastestMessages fastest) : offset_(offset), fastest_(fastest) {}

  std::int64_t read(int rank) {
    const std::lock_guard lock(mutex_);
    if (rank != last_reader_) time_ += message_time(rank);
    last_reader_ = rank;
    time_ += 10;
    return rank == 0 ? time_ + offset_ : time_;
  }

 private:
  /// Most messages are late by milliseconds. Message 22 and message 9 are not.
  std::int64_t message_time(int to) {
    const int number = messages_++;
    const bool is_late = number != 22 && number != 9;
    return (to == 0 ? fastest_.to_first : fastest_.to_other) +
           (is_late ? 1'000'000 * (1 + number * 7 % 32) : 0);
  }

  std::mutex mutex_;
  std::int64_t offset_;
  FastestMessages fastest_;
  std::int64_t time_ = 0;
  int last_reader_ = kOther;
  int messages_ = 0;
};

std::int64_t measured(std::int64_t offset, FastestMessages fastest) {
  FakeClocks clocks(offset, fastest);
  std::int64_t result = 0;
  local::run_threads(kRanks, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto found = clock_offset(communicator, kOther, [&] { return clocks.read(rank); });
    if (rank == 0) {
      result = found;
    } else {
      EXPECT_EQ(found, 0);
    }
  });
  return result;
}

TEST(ClockOffsetTest, IsExactIfTheFastestMessagesTakeTheSameTime) {
  for (const std::int64_t offset : {0LL, 1'000'000LL, -5'000'000'000'000LL}) {
    EXPECT_EQ(measured(offset, {.to_first = 300, .to_other = 300}), offset);
  }
}

TEST(ClockOffsetTest, IsWrongByHalfOfTheDifferenceOfTheFastestMessages) {
  EXPECT_EQ(measured(7'000, {.to_first = 900, .to_other = 300}), 7'000 + 300);
  EXPECT_EQ(measured(7'000, {.to_first = 300, .to_other = 900}), 7'000 - 300);
}

}  // namespace
}  // namespace lockstep::comm
