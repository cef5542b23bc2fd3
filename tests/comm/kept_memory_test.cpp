#include "lockstep/comm/host/kept_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/comm/local/local_group.h"
#include "lockstep/comm/sharded_update.h"
#include "lockstep/topology/placement.h"
#include "tests/support/errors.h"

namespace lockstep::comm::host {
namespace {

using local::run_threads;
using testing::expect_error;

/// As the next attempt has it.
KeptMemory again(const KeptMemory& memory) {
  auto opened = KeptMemory::open(memory.file(), "job");
  opened.begin_attempt();
  return opened;
}

/// Asks for a piece, and returns what it begins with, or -1 for a new one, which is then written.
int visit(KeptMemory& memory, const char* name, std::uint64_t fingerprint, std::size_t bytes,
          char value) {
  const auto piece = memory.next(name, fingerprint, bytes).value();
  const auto mapped = memory.map(piece.offset, bytes);
  auto* data = reinterpret_cast<char*>(mapped.data());
  if (!piece.is_new) return data[bytes - 1];
  for (std::size_t i = 0; i < bytes; ++i) EXPECT_EQ(data[i], 0) << name << " at " << i;
  std::memset(data, value, bytes);
  return -1;
}

TEST(KeptMemoryTest, FindsItsPiecesAgainInTheirOrder) {
  auto memory = KeptMemory::create("job");
  EXPECT_EQ(memory.num_pieces(), 0);
  EXPECT_EQ(visit(memory, "weights", 1, 5000, 10), -1);
  EXPECT_EQ(visit(memory, "position", 2, 8, 20), -1);
  auto next = again(memory);
  EXPECT_EQ(next.num_pieces(), 2);
  EXPECT_EQ(visit(next, "weights", 1, 5000, 99), 10);
  EXPECT_EQ(visit(next, "position", 2, 8, 99), 20);
  EXPECT_EQ(visit(next, "more", 3, 8, 30), -1);
  EXPECT_EQ(again(memory).num_pieces(), 3);
}

TEST(KeptMemoryTest, GivesUpAPieceThatDoesNotFitAndAllBehindIt) {
  struct Misfit {
    const char* name;
    std::uint64_t fingerprint;
    std::size_t bytes;
  };
  for (const auto& [name, fingerprint, bytes] :
       {Misfit{"other", 2, 6000}, Misfit{"b", 3, 6000}, Misfit{"b", 2, 5999}}) {
    auto memory = KeptMemory::create("job");
    EXPECT_EQ(visit(memory, "a", 1, 100, 10), -1);
    EXPECT_EQ(visit(memory, "b", 2, 6000, 20), -1);
    EXPECT_EQ(visit(memory, "c", 3, 100, 30), -1);
    auto next = again(memory);
    EXPECT_EQ(visit(next, "a", 1, 100, 99), 10);
    EXPECT_EQ(visit(next, name, fingerprint, bytes, 40), -1);  // and zeroed, which visit() checks
    EXPECT_EQ(next.num_pieces(), 2);
    EXPECT_EQ(visit(next, "c", 3, 100, 50), -1);
    auto third = again(memory);
    EXPECT_EQ(visit(third, "a", 1, 100, 99), 10);
    EXPECT_EQ(visit(third, name, fingerprint, bytes, 99), 40);
    EXPECT_EQ(visit(third, "c", 3, 100, 99), 50);
  }
}

TEST(KeptMemoryTest, APieceThatWasNeverFinishedIsNew) {
  auto memory = KeptMemory::create("job");
  visit(memory, "a", 1, 100, 10);
  // Whoever made the next one died over it: pages and contents, but no entry that counts.
  ASSERT_EQ(::ftruncate(memory.file(), 1 << 20), 0);
  const auto file = memory.map(0, 1 << 20);
  std::memset(file.data() + (1 << 19), 77, 1 << 19);
  auto next = again(memory);
  EXPECT_EQ(visit(next, "a", 1, 100, 99), 10);
  EXPECT_EQ(visit(next, "b", 2, 1 << 20, 20), -1);
}

TEST(KeptMemoryTest, BelongsToOneJob) {
  const auto memory = KeptMemory::create("job");
  expect_error([&] { KeptMemory::open(memory.file(), "another"); }, ErrorKind::Unavailable,
               "kept memory: it belongs to another job, or to another build of lockstep");
  expect_error([&] { KeptMemory::open(987, "job"); }, ErrorKind::Unavailable,
               "kept memory: descriptor 987 is not the memory of this job");
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  expect_error([&] { KeptMemory::open(null.get(), "job"); }, ErrorKind::Unavailable,
               "is not the memory of this job");
  const UniqueFd zeros(::memfd_create("zeros", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(zeros.get(), 1 << 20), 0);
  expect_error([&] { KeptMemory::open(zeros.get(), "job"); }, ErrorKind::Unavailable,
               "belongs to another job");
}

TEST(KeptMemoryTest, KeepsNoMorePiecesThanItHasRoomFor) {
  auto memory = KeptMemory::create("job");
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(memory.next("piece", 0, 1).has_value());
  EXPECT_FALSE(memory.next("piece", 0, 1).has_value());
  // What is not kept is shared all the same.
  run_threads(
      2,
      [](Communicator& communicator) {
        const auto piece = communicator.keep(sizeof(int), "more", 0);
        EXPECT_TRUE(piece.is_new);
        if (communicator.rank() == 0) *reinterpret_cast<int*>(piece.memory.data()) = 7;
        communicator.barrier();
        EXPECT_EQ(*reinterpret_cast<int*>(piece.memory.data()), 7);
      },
      {}, std::make_shared<KeptMemory>(KeptMemory::open(memory.file(), "job")));
}

TEST(KeptMemoryTest, WhoJoinsAgainInTheSameAttemptGetsTheNextPiece) {
  auto memory = KeptMemory::create("job");
  EXPECT_EQ(visit(memory, "weights", 1, 8, 10), -1);
  auto joined_again = KeptMemory::open(memory.file(), "job");
  EXPECT_EQ(visit(joined_again, "weights", 1, 8, 20), -1);
  EXPECT_EQ(memory.num_pieces(), 2);
}

TEST(KeptMemoryTest, TellsWhoWasGivenUpInThisAttempt) {
  auto memory = KeptMemory::create("job");
  EXPECT_EQ(memory.given_up(), -1);
  KeptMemory::open(memory.file(), "job").note_given_up(2);
  EXPECT_EQ(memory.given_up(), 2);
  memory.begin_attempt();
  EXPECT_EQ(memory.given_up(), -1);
}

TEST(KeptMemoryTest, TellsHowFarTheTrainingWas) {
  auto memory = KeptMemory::create("job");
  EXPECT_EQ(memory.step(), -1);
  again(memory).note_step(12);
  EXPECT_EQ(memory.step(), 12);
}

constexpr std::int64_t kCount = 20000;
constexpr int kLeaves = 6;

struct Run {
  int steps = 8;
  int dies_in_step = 0;  ///< in the midst of writing the next version; 0: never
  std::uint64_t fingerprint = 5;
};

/// What an optimizer with a memory makes of leaves that differ in every step, replica and element.
std::vector<float> train(int instances, const std::shared_ptr<KeptMemory>& kept, const Run& run,
                         std::uint64_t* recovered_at = nullptr) {
  std::vector<float> result(kCount);
  run_threads(
      instances,
      [&](Communicator& communicator) {
        const int rank = communicator.rank();
        const auto mine =
            topology::replicas_of(rank, {.replicas = kLeaves, .instances = instances});
        ShardedUpdate update(communicator,
                             {.count = kCount,
                              .num_leaves = mine.count,
                              .state_bytes = kCount * sizeof(float),
                              .fingerprint = run.fingerprint},
                             "weights");
        if (rank == 0 && recovered_at != nullptr) {
          *recovered_at = update.is_recovered() ? update.version() : 0;
        }
        if (!update.is_recovered()) {
          if (rank == 0) std::memset(update.next_state(), 0, kCount * sizeof(float));
          update.publish();
        }
        while (update.version() <= static_cast<std::uint64_t>(run.steps)) {
          const auto step = static_cast<int>(update.version());
          for (int i = 0; i < mine.count; ++i) {
            auto* leaf = static_cast<float*>(update.leaf());
            for (int k = 0; k < kCount; ++k) {
              leaf[k] = 1.0F / static_cast<float>(1 + step * 31 + (mine.first + i) * 7 + k);
            }
            update.take_leaf();
          }
          update.reduce({});
          for (const auto part : update.parts()) {
            const auto* current = reinterpret_cast<const float*>(update.state()) + part.first;
            auto* next = reinterpret_cast<float*>(update.next_state()) + part.first;
            for (std::size_t k = 0; k < part.sum.size(); ++k) {
              next[k] = current[k] * 0.9F + part.sum[k];
            }
          }
          if (step == run.dies_in_step && rank == instances - 1) {
            const Error error(ErrorKind::Bug, "dies");
            communicator.report_failure(error);
            throw error;
          }
          update.commit();
          communicator.note_step(step);
        }
        if (rank == 0) std::memcpy(result.data(), update.state(), kCount * sizeof(float));
        communicator.barrier();
      },
      {}, kept);
  return result;
}

std::shared_ptr<KeptMemory> reopened(const KeptMemory& memory) {
  return std::make_shared<KeptMemory>(again(memory));
}

TEST(KeptMemoryTest, AnUpdateGoesOnAfterItsLastCommittedStepOnAnyNumberOfInstances) {
  const auto expected = train(2, nullptr, {});
  const auto memory = KeptMemory::create("job");
  EXPECT_THROW(train(2, reopened(memory), {.dies_in_step = 4}), Error);
  EXPECT_EQ(memory.step(), 3);
  std::uint64_t version = 0;
  EXPECT_THROW(train(3, reopened(memory), {.dies_in_step = 7}, &version), Error);
  EXPECT_EQ(version, 4U);  // three steps after the first version
  const auto result = train(1, reopened(memory), {}, &version);
  EXPECT_EQ(version, 7U);
  EXPECT_EQ(std::memcmp(result.data(), expected.data(), kCount * sizeof(float)), 0);
}

TEST(KeptMemoryTest, AnUpdateOfSomethingElseBeginsAnew) {
  const auto memory = KeptMemory::create("job");
  train(2, reopened(memory), {.steps = 3});
  std::uint64_t version = 9;
  const auto result = train(2, reopened(memory), {.fingerprint = 6}, &version);
  EXPECT_EQ(version, 0U);
  const auto expected = train(1, nullptr, {});
  EXPECT_EQ(std::memcmp(result.data(), expected.data(), kCount * sizeof(float)), 0);
}

}  // namespace
}  // namespace lockstep::comm::host
