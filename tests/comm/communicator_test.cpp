#include "lockstep/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/local/local_group.h"
#include "tests/comm/collective_checks.h"
#include "tests/support/errors.h"

namespace lockstep::comm {
namespace {

using local::run_threads;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

class CollectiveTest : public ::testing::TestWithParam<int> {};

TEST_P(CollectiveTest, GivesTheReferencesBitsForEachOperationAndType) {
  run_threads(GetParam(), [](Communicator& communicator) {
    for (const auto& collective : testing::all_collectives()) {
      testing::check_collective(communicator, collective);
    }
  });
}

TEST_P(CollectiveTest, GivesTheSameBitsForTheSameLeavesHoweverTheyAreDealtOut) {
  run_threads(GetParam(), [](Communicator& communicator) {
    for (const auto type : {DataType::F16, DataType::BF16, DataType::F32, DataType::F64}) {
      for (const auto op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Product}) {
        for (const int leaves : {8, 9, 13, 16}) {
          testing::check_leaves(communicator, type, op, 30001, leaves);
        }
      }
    }
  });
}

TEST_P(CollectiveTest, KeepsUpInAMixtureOfAll) {
  run_threads(GetParam(),
              [](Communicator& communicator) { testing::check_mixture(communicator, 300, 5); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveTest, ::testing::Values(1, 2, 3, 4, 5, 8));

TEST(CommunicatorTest, ReducesManyBuffersOfSeveralTypesAsOneOperation) {
  run_threads(3, [](Communicator& communicator) {
    const auto rank = static_cast<float>(communicator.rank());
    std::vector<float> first(5, rank);
    std::vector<double> second(100000, 1.5);
    std::vector<std::int32_t> third{};
    std::vector<std::uint8_t> fourth(3, 7);
    const std::vector<Buffer> buffers{buffer_of(first), buffer_of(second), buffer_of(third),
                                      buffer_of(fourth)};
    communicator.all_reduce(buffers, ReduceOp::Sum);
    EXPECT_EQ(first, std::vector<float>(5, 3.0F));
    EXPECT_EQ(second, std::vector<double>(100000, 4.5));
    EXPECT_EQ(fourth, std::vector<std::uint8_t>(3, 21));
    communicator.all_reduce(std::span<const Buffer>{});
  });
}

TEST(CommunicatorTest, ANanWinsOverEveryNumber) {
  run_threads(3, [](Communicator& communicator) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto op : {ReduceOp::Min, ReduceOp::Max, ReduceOp::Sum}) {
      std::vector<float> values{1.0F, 1.0F, 1.0F};
      values[static_cast<std::size_t>(communicator.rank())] = nan;
      communicator.all_reduce(buffer_of(values), op);
      for (const float value : values) EXPECT_TRUE(std::isnan(value)) << name_of(op);
    }
  });
}

TEST(CommunicatorTest, RunsAsynchronousOperationsInOrder) {
  run_threads(4, [](Communicator& communicator) {
    std::vector<std::vector<float>> values(20, std::vector<float>(1000, 1.0F));
    std::vector<Work> works;
    for (auto& buffer : values) works.push_back(communicator.async().all_reduce(buffer_of(buffer)));
    // A synchronous one waits for those before it.
    communicator.all_reduce(buffer_of(values.front()));
    EXPECT_TRUE(works.back().done());
    for (auto& work : works) work.wait();
    works.front().wait();
    EXPECT_EQ(values.front(), std::vector<float>(1000, 16.0F));
    EXPECT_EQ(values.back(), std::vector<float>(1000, 4.0F));
  });
}

TEST(CommunicatorTest, DestroyedWorkIsDone) {
  run_threads(2, [](Communicator& communicator) {
    std::vector<float> values(100000, 1.0F);
    { const auto work = communicator.async().all_reduce(buffer_of(values)); }
    EXPECT_EQ(values.front(), 2.0F);
  });
}

TEST(CommunicatorTest, AGroupHasItsOwnRanksAndTheJobsNumbers) {
  run_threads(4, [](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    auto& group = communicator.group({0, 2, 3});
    EXPECT_EQ(&group, &communicator.group({0, 2, 3}));
    EXPECT_THAT(group.instances(), ElementsAre(0, 2, 3));
    std::vector<int> ranks(3);
    const std::vector<int> mine{group.rank()};
    group.all_gather(buffer_of(mine), buffer_of(ranks));
    EXPECT_THAT(ranks, ElementsAre(0, 1, 2));
    if (group.rank() == 0) return;
    auto& inner = group.group({2, 3});
    std::vector<float> values{1.0F};
    inner.all_reduce(buffer_of(values));
    EXPECT_EQ(values.front(), 2.0F);
  });
}

TEST(CommunicatorTest, OneListWithinTwoParentsIsTwoGroups) {
  run_threads(3, [](Communicator& communicator) {
    if (communicator.rank() == 2) {
      communicator.group({0, 1, 2});
      return;
    }
    auto& direct = communicator.group({0, 1});
    auto& nested = communicator.group({0, 1, 2}).group({0, 1});
    std::vector<float> values{1.0F};
    direct.all_reduce(buffer_of(values));
    nested.all_reduce(buffer_of(values));
    direct.all_reduce(buffer_of(values));
    EXPECT_EQ(values.front(), 8.0F);
  });
}

TEST(CommunicatorTest, RunsAFunctionOnSomeInstancesOnly) {
  std::mutex mutex;
  std::vector<int> ran;
  run_threads(4, [&](Communicator& communicator) {
    communicator.on_instances({1, 3}, [&](Communicator& group) {
      std::vector<int> values{communicator.rank()};
      group.all_reduce(buffer_of(values));
      EXPECT_EQ(values.front(), 4);
      const std::lock_guard lock(mutex);
      ran.push_back(communicator.rank());
    });
    communicator.barrier();
  });
  EXPECT_THAT(ran, ::testing::UnorderedElementsAre(1, 3));
}

TEST(CommunicatorTest, RefusesTheOuterCommunicatorInsideAFunctionForSomeInstances) {
  run_threads(2, [](Communicator& communicator) {
    communicator.on_instances({0}, [&](Communicator&) {
      const auto error = error_of([&] { communicator.barrier(); });
      EXPECT_EQ(error.kind(), ErrorKind::Options);
      EXPECT_STREQ(error.what(), "barrier: called on instances 0,1 inside on_instances(0)");
    });
    communicator.barrier();
  });
}

TEST(CommunicatorTest, KeepsTheScopeBehindAnInnerOne) {
  run_threads(1, [](Communicator& communicator) {
    communicator.on_instances({0}, [&](Communicator&) {
      communicator.on_instances({0}, [](Communicator& inner) { inner.barrier(); });
      EXPECT_THROW(communicator.barrier(), Error);
      EXPECT_THROW(communicator.allocate(8, "inside"), Error);
    });
    communicator.barrier();
  });
}

TEST(CommunicatorTest, RefusesToRunOnInstancesThatAreNotThere) {
  run_threads(2, [](Communicator& communicator) {
    EXPECT_STREQ(error_of([&] { communicator.on_instances({7}, [](Communicator&) {}); }).what(),
                 "group: expected some of instances 0,1, ascending, found 7");
    communicator.barrier();
  });
}

TEST(CommunicatorTest, AFailureThatIsReportedIsEverybodysError) {
  run_threads(3, [](Communicator& communicator) {
    if (communicator.rank() == 1) {
      communicator.report_failure(Error(ErrorKind::Diverged, "loss is nan"));
      communicator.report_failure(Error(ErrorKind::Io, "the second does not count"));
    }
    const auto error = error_of([&] { communicator.barrier(); });
    EXPECT_EQ(error.kind(), ErrorKind::Diverged);
    EXPECT_STREQ(error.what(), "loss is nan");
    EXPECT_EQ(error_of([&] { communicator.barrier(); }).kind(), ErrorKind::Diverged);
  });
}

TEST(CommunicatorTest, RefusesMoreInstancesThanItHasRoomFor) {
  const auto error = error_of([] { run_threads(257, [](Communicator&) {}); });
  EXPECT_EQ(error.kind(), ErrorKind::Unavailable);
  EXPECT_STREQ(error.what(), "shared memory: expected a job of 1 to 256 instances, found 257");
  EXPECT_THROW(run_threads(0, [](Communicator&) {}), Error);
}

TEST(CommunicatorTest, LeavesTheScopeWhenTheFunctionThrows) {
  run_threads(1, [](Communicator& communicator) {
    EXPECT_THROW(
        communicator.on_instances({0}, [](Communicator&) { throw std::runtime_error("mine"); }),
        std::runtime_error);
    communicator.barrier();
  });
}

TEST(CommunicatorTest, RefusesGroupsThatCannotBeMeant) {
  run_threads(1, [](Communicator& communicator) {
    const auto message = [&](const std::vector<int>& list) {
      return std::string(error_of([&] { communicator.group(list); }).what());
    };
    EXPECT_EQ(message({}), "group: expected some of instances 0, ascending, found ");
    EXPECT_EQ(message({0, 0}), "group: expected some of instances 0, ascending, found 0,0");
    EXPECT_EQ(message({0, 1}), "group: expected some of instances 0, ascending, found 0,1");
  });
  run_threads(2, [](Communicator& communicator) {
    if (communicator.rank() == 0) {
      EXPECT_STREQ(error_of([&] { communicator.group({1}); }).what(),
                   "group: instance 0 is not one of 1");
    }
  });
}

TEST(CommunicatorTest, RefusesArgumentsThatCannotBeMeant) {
  run_threads(1, [](Communicator& communicator) {
    std::vector<float> two(2);
    std::vector<float> three(3);
    std::vector<double> doubles(2);
    const auto message = [](auto action) { return std::string(error_of(action).what()); };
    EXPECT_EQ(message([&] {
                communicator.all_reduce({two.data(), -1, DataType::F32, "w"});
              }),
              "all_reduce \"w\": expected a count from 0 to 70368744177664, found -1");
    EXPECT_EQ(message([&] {
                communicator.all_reduce({nullptr, 4, DataType::F32});
              }),
              "all_reduce: expected memory of 4 f32, found a null pointer");
    EXPECT_THAT(
        message([&] {
          communicator.all_reduce({reinterpret_cast<std::byte*>(two.data()) + 1, 1, DataType::F32});
        }),
        HasSubstr("all_reduce: expected memory that is aligned for f32, found 0x"));
    EXPECT_EQ(message([&] { communicator.broadcast(buffer_of(two), 1); }),
              "broadcast: expected a root from 0 to 0, found 1");
    EXPECT_EQ(message([&] { communicator.broadcast(buffer_of(two), -1); }),
              "broadcast: expected a root from 0 to 0, found -1");
    EXPECT_EQ(message([&] { communicator.all_gather(buffer_of(two), buffer_of(three)); }),
              "all_gather: expected 1 blocks of 2 elements, found 3 elements in all");
    EXPECT_EQ(message([&] { communicator.all_gather(buffer_of(two), buffer_of(doubles)); }),
              "all_gather: expected one type on both sides, found f32 and f64");
    EXPECT_EQ(message([&] { communicator.reduce_scatter(buffer_of(three), buffer_of(two)); }),
              "reduce_scatter: expected 1 blocks of 2 elements, found 3 elements in all");
    EXPECT_EQ(message([&] { communicator.gather(buffer_of(two), buffer_of(three), 0); }),
              "gather: expected 1 blocks of 2 elements, found 3 elements in all");
    EXPECT_EQ(message([&] { communicator.scatter(buffer_of(three), buffer_of(two), 0); }),
              "scatter: expected 1 blocks of 2 elements, found 3 elements in all");
    EXPECT_EQ(message([&] { communicator.all_reduce_leaves({}, buffer_of(two)); }),
              "all_reduce: expected at least one leaf, found none");
    EXPECT_EQ(message([&] { communicator.allocate(0, "nothing"); }),
              "allocate \"nothing\": expected bytes, found 0");
    communicator.barrier();
  });
}

TEST(CommunicatorTest, WorksInPlace) {
  run_threads(3, [](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    std::vector<int> values(3, -1);
    values[rank] = communicator.rank();
    communicator.all_gather(buffer_of(std::span(values).subspan(rank, 1)), buffer_of(values));
    EXPECT_THAT(values, ElementsAre(0, 1, 2));
  });
}

TEST(CommunicatorTest, SharesMemoryThatItAllocates) {
  run_threads(3, [](Communicator& communicator) {
    const auto memory = communicator.allocate(3 * sizeof(int), "numbers");
    auto* numbers = reinterpret_cast<int*>(memory.data());
    EXPECT_EQ(numbers[communicator.rank()], 0);
    numbers[communicator.rank()] = communicator.rank() + 1;
    communicator.barrier();
    EXPECT_EQ(std::accumulate(numbers, numbers + 3, 0), 6);
  });
}

struct Disagreement {
  std::string name;
  std::function<void(Communicator&)> first;
  std::function<void(Communicator&)> other;
  std::string expected;
  friend void PrintTo(const Disagreement& value, std::ostream* out) { *out << value.name; }
};

class DisagreementTest : public ::testing::TestWithParam<Disagreement> {};

TEST_P(DisagreementTest, IsAnErrorOnEveryInstanceThatNamesBothSides) {
  std::mutex mutex;
  std::vector<std::string> messages;
  try {
    run_threads(3, [&](Communicator& communicator) {
      communicator.barrier();
      const auto error = error_of(
          [&] { (communicator.rank() == 2 ? GetParam().other : GetParam().first)(communicator); });
      EXPECT_EQ(error.kind(), ErrorKind::Options);
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.what());
      EXPECT_THROW(communicator.barrier(), Error) << "the job has failed";
    });
  } catch (const Error&) {
  }
  ASSERT_EQ(messages.size(), 3U);
  for (const auto& message : messages) {
    EXPECT_THAT(message, HasSubstr("collective #2: instances disagree: instance 0 (host "));
    EXPECT_THAT(message, HasSubstr(GetParam().expected));
  }
}

void reduce(Communicator& communicator, int count, ReduceOp op = ReduceOp::Sum) {
  std::vector<float> values(static_cast<std::size_t>(count));
  communicator.all_reduce(buffer_of(values), op);
}

void broadcast(Communicator& communicator, int root) {
  std::vector<float> values(3);
  communicator.broadcast(buffer_of(values), root);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DisagreementTest,
    ::testing::Values(
        Disagreement{"operation", [](auto& c) { c.barrier(); }, [](auto& c) { reduce(c, 7); },
                     "called all_reduce(sum, 7 f32)"},
        Disagreement{"size", [](auto& c) { reduce(c, 1000); }, [](auto& c) { reduce(c, 999999); },
                     ") called all_reduce(sum, 999999 f32)"},
        Disagreement{"operator", [](auto& c) { reduce(c, 7); },
                     [](auto& c) { reduce(c, 7, ReduceOp::Max); }, "called all_reduce(max, 7 f32)"},
        Disagreement{"type", [](auto& c) { reduce(c, 7); },
                     [](auto& c) {
                       std::vector<std::int32_t> values(7);
                       c.all_reduce(buffer_of(values));
                     },
                     "called all_reduce(sum, 7 i32)"},
        Disagreement{"root", [](auto& c) { broadcast(c, 0); }, [](auto& c) { broadcast(c, 1); },
                     "called broadcast(3 f32, root 1)"},
        Disagreement{"layout",
                     [](auto& c) {
                       std::vector<float> values(10);
                       const std::vector<Buffer> buffers{{values.data(), 4, DataType::F32},
                                                         {values.data(), 6, DataType::F32}};
                       c.all_reduce(buffers);
                     },
                     [](auto& c) {
                       std::vector<float> values(10);
                       const std::vector<Buffer> buffers{{values.data(), 5, DataType::F32},
                                                         {values.data(), 5, DataType::F32}};
                       c.all_reduce(buffers);
                     },
                     "called all_reduce(sum, 2 buffers, 10 elements"},
        Disagreement{"allocation", [](auto& c) { c.allocate(4096, "w"); },
                     [](auto& c) { c.allocate(40960, "w"); }, "called allocate(40960 bytes)"},
        Disagreement{"leaves", [](auto& c) { reduce(c, 7); },
                     [](auto& c) {
                       std::vector<float> values(7);
                       const std::vector<ConstBuffer> leaves{buffer_of(values)};
                       c.all_reduce_leaves(leaves, buffer_of(values));
                     },
                     "called all_reduce(sum, 7 f32, leaves)"}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::comm
