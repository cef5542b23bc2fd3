#include "lockstep/weights/digest_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include "lockstep/weights/compare_logs.h"
#include "lockstep/weights/digest.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using testing::ScratchFolder;

const std::string kHeader = R"({"lockstep_digests":1,"replicas":2,"threads_per_device":1})"
                            "\n";
const std::string kStep20 =
    R"({"step":20,"loss":[0.5],"loss_bits":["3f000000"],"tensors":{"a":"0123456789abcdef"}})"
    "\n";

std::vector<DigestStep> read_all(const std::string& path) {
  DigestLogReader reader(path);
  std::vector<DigestStep> steps;
  while (auto step = reader.next()) steps.push_back(std::move(*step));
  return steps;
}

std::vector<std::int64_t> numbers_of(const std::vector<DigestStep>& steps) {
  std::vector<std::int64_t> numbers;
  for (const auto& step : steps) numbers.push_back(step.step);
  return numbers;
}

class DigestLogTest : public ::testing::Test {
 protected:
  void expect_damaged(const std::string& text, const std::string& message) const {
    const auto path = folder_.write("bad.jsonl", text);
    expect_error([&] { read_all(path); }, ErrorKind::Data, path + message);
  }

  ScratchFolder folder_;
  std::string path_ = folder_.path() + "/digests.jsonl";
};

TEST_F(DigestLogTest, IsLinesOfJsonThatAreThereAtOnce) {
  DigestLogWriter writer(path_, {8, 2, {{"model", "resnet20"}}});
  const auto header =
      R"({"lockstep_digests":1,"replicas":8,"threads_per_device":2,"model":"resnet20"})"
      "\n";
  EXPECT_EQ(read_file(path_), header);
  writer.append({40, {0.5F, 0.25F}, {{"conv1.weight", "0123456789abcdef"}}});
  EXPECT_EQ(read_file(path_),
            header + std::string(R"({"step":40,"loss":[0.5,0.25],"loss_bits":["3f000000",)"
                                 R"("3e800000"],"tensors":{"conv1.weight":"0123456789abcdef"}})"
                                 "\n"));
}

TEST_F(DigestLogTest, ReadsBackEveryBit) {
  const std::vector<float> losses{0.1F, -0.0F, std::numeric_limits<float>::infinity(),
                                  std::bit_cast<float>(0xffc01234U)};
  DigestLogWriter writer(path_, {2, 3, {{"path", "\xff"}, {"name", "grün \"x\""}}});
  writer.append({1, losses, {}});
  writer.append({7, {}, {{"a", "0000000000000000"}, {"ü", "ffffffffffffffff"}}});
  DigestLogReader reader(path_);
  EXPECT_EQ(reader.path(), path_);
  EXPECT_EQ(reader.header().replicas, 2);
  EXPECT_EQ(reader.header().threads_per_device, 3);
  EXPECT_EQ(reader.header().facts.at("name"), "grün \"x\"");
  const auto first = reader.next();
  ASSERT_TRUE(first);
  ASSERT_EQ(first->losses.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(first->losses[i]),
              std::bit_cast<std::uint32_t>(losses[i]));
  }
  const auto second = reader.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->step, 7);
  EXPECT_EQ(second->tensors.at("ü"), "ffffffffffffffff");
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST_F(DigestLogTest, KeepsNumbersAmongTheFactsAsText) {
  const auto path = folder_.write(
      "a.jsonl", R"({"lockstep_digests":1,"replicas":1,"threads_per_device":1,"lr":0.1})"
                 "\n");
  EXPECT_EQ(DigestLogReader(path).header().facts.at("lr"), "0.1");
}

TEST_F(DigestLogTest, LeavesOutALastLineThatWasCut) {
  for (std::size_t bytes = 1; bytes + 2 < kStep20.size(); ++bytes) {
    const auto path = folder_.write("cut.jsonl", kHeader + kStep20 + kStep20.substr(0, bytes));
    EXPECT_THAT(numbers_of(read_all(path)), ElementsAre(20)) << bytes;
  }
  auto next = kStep20;
  next.replace(next.find("20"), 2, "40");
  next.pop_back();
  EXPECT_THAT(numbers_of(read_all(folder_.write("cut.jsonl", kHeader + kStep20 + next))),
              ElementsAre(20, 40));
}

TEST_F(DigestLogTest, ReplacesALogUnlessItIsResumed) {
  for (const std::int64_t last : {60, 80}) {
    DigestLogWriter writer(path_, {});
    for (std::int64_t step = 20; step <= last; step += 20) writer.append({step, {1.0F}, {}});
  }
  EXPECT_THAT(numbers_of(read_all(path_)), ElementsAre(20, 40, 60, 80));
  {
    DigestLogWriter resumed(path_, {.replicas = 4}, 45);
    resumed.append({60, {2.0F}, {}});
  }
  const auto steps = read_all(path_);
  EXPECT_THAT(numbers_of(steps), ElementsAre(20, 40, 60));
  EXPECT_EQ(steps.back().losses.front(), 2.0F);
  EXPECT_EQ(DigestLogReader(path_).header().replicas, 4);
  const auto fresh = folder_.path() + "/fresh.jsonl";
  DigestLogWriter(fresh, {}, 45);
  EXPECT_THAT(read_all(fresh), ::testing::IsEmpty());
}

TEST_F(DigestLogTest, SaysWhereALogThatIsContinuedEnds) {
  EXPECT_EQ(DigestLogWriter(path_, {}, 45).last_step(), std::nullopt) << "there was none";
  EXPECT_EQ(DigestLogWriter(path_, {}, 45).last_step(), 0);
  DigestLogWriter(path_, {}, 45).append({20, {1.0F}, {}});
  EXPECT_EQ(DigestLogWriter(path_, {}, 45).last_step(), 20);
  EXPECT_EQ(DigestLogWriter(path_, {}, 19).last_step(), 0);
  EXPECT_EQ(DigestLogWriter(path_, {}).last_step(), std::nullopt) << "it is begun anew";
}

TEST_F(DigestLogTest, LeavesTheOldLogWholeUntilTheNewOneTakesItsPlace) {
  folder_.write("digests.jsonl", kHeader + kStep20);
  // What a kill before the new log is there would leave.
  const auto old = folder_.path() + "/old";
  std::filesystem::create_hard_link(path_, old);
  DigestLogWriter resumed(path_, {.replicas = 4}, 30);
  EXPECT_EQ(read_file(old), kHeader + kStep20);
  EXPECT_THAT(numbers_of(read_all(path_)), ElementsAre(20));
  EXPECT_EQ(DigestLogReader(path_).header().replicas, 4);
  resumed.append({40, {1.0F}, {}});
  EXPECT_THAT(numbers_of(read_all(path_)), ElementsAre(20, 40));
  std::filesystem::remove(old);
  std::filesystem::remove(path_);
  EXPECT_TRUE(folder_.is_empty());
}

TEST_F(DigestLogTest, TakesALogWithoutAHeaderForNone) {
  for (std::size_t bytes = 0; bytes < kHeader.size(); ++bytes) {
    folder_.write("digests.jsonl", kHeader.substr(0, bytes));
    DigestLogWriter(path_, {.replicas = 3}, 45).append({60, {1.0F}, {}});
    EXPECT_THAT(numbers_of(read_all(path_)), ElementsAre(60)) << bytes;
    EXPECT_EQ(DigestLogReader(path_).header().replicas, 3);
  }
  // A file of somebody else is not.
  folder_.write("digests.jsonl", "hello\n");
  expect_error([&] { DigestLogWriter(path_, {}, 45); }, ErrorKind::Data,
               path_ + ": line 1: expected an object of JSON, found 'hello'");
  EXPECT_EQ(read_file(path_), "hello\n");
}

TEST_F(DigestLogTest, NamesTheLineThatIsDamaged) {
  expect_damaged("", ": expected a digest log, found an empty file");
  expect_damaged("hello\n", ": line 1: expected an object of JSON, found 'hello'");
  expect_damaged("{}\n", ": line 1: expected a 'lockstep_digests', found none");
  expect_damaged("{\"lockstep_digests\":2}\n",
                 ": line 1: expected digests of version 1, found version 2");
  expect_damaged("{\"lockstep_digests\":1,\"replicas\":0}\n",
                 ": line 1: expected a whole number of at least 1 as 'replicas', found 0");
  expect_damaged("{\"lockstep_digests\":1,\"replicas\":\"x\"}\n",
                 ": line 1: expected a whole number of at least 1 as 'replicas', found \"x\"");
  expect_damaged(kHeader.substr(0, 20), ": line 1: expected an object of JSON");
  expect_damaged(kHeader + "{\n" + kStep20, ": line 2: expected an object of JSON, found '{'");
  expect_damaged(kHeader + "\n" + kStep20, ": line 2: expected an object of JSON, found ''");
  expect_damaged(kHeader + kStep20 + kStep20, ": line 3: expected a step after 20, found step 20");
}

TEST_F(DigestLogTest, NamesThePartOfALineThatIsDamaged) {
  const auto expect_refused = [&](const std::string& step, const std::string& message) {
    expect_damaged(kHeader + step + "\n" + kStep20, ": line 2: expected " + message);
  };
  expect_refused(R"({"step":-1})", "a whole number of at least 0 as 'step', found -1");
  expect_refused(R"({"step":1.5})", "a whole number of at least 0 as 'step', found 1.5");
  expect_refused(R"({"step":18446744073709551615})", "a whole number of at least 0 as 'step'");
  expect_refused(R"({"step":1})", "a 'loss_bits', found none");
  expect_refused(R"({"step":1,"loss_bits":1})", "a list as 'loss_bits', found 1");
  expect_refused(R"({"step":1,"loss_bits":[]})", "a 'loss', found none");
  expect_refused(R"({"step":1,"loss":[1],"loss_bits":[]})",
                 "a list of 0 numbers as 'loss', found [1]");
  expect_refused(R"({"step":1,"loss":[1],"loss_bits":["3F000000"]})",
                 "losses of 8 hex digits, found \"3F000000\"");
  expect_refused(R"({"step":1,"loss":[1],"loss_bits":[7]})", "losses of 8 hex digits, found 7");
  expect_refused(R"({"step":1,"loss":[],"loss_bits":[]})", "a 'tensors', found none");
  expect_refused(R"({"step":1,"loss":[],"loss_bits":[],"tensors":[]})",
                 "an object as 'tensors', found []");
  expect_refused(R"({"step":1,"loss":[],"loss_bits":[],"tensors":{"a":"12"}})",
                 "16 hex digits for 'a', found \"12\"");
}

TEST_F(DigestLogTest, NamesTheFileThatTheSystemRefuses) {
  expect_error([&] { DigestLogReader(folder_.path() + "/none"); }, ErrorKind::Io,
               "read " + folder_.path() + "/none: No such file or directory");
  expect_error([&] { DigestLogReader(folder_.path()); }, ErrorKind::Io,
               "read " + folder_.path() + ": Is a directory");
  expect_error([&] { DigestLogWriter(folder_.path() + "/no/log", {}); }, ErrorKind::Io,
               "write " + folder_.path() + "/no/log: No such file or directory");
  expect_error([] { DigestLogWriter("/dev/full", {}); }, ErrorKind::Io,
               "write /dev/full: No space left on device");
  expect_error([&] { DigestLogWriter(folder_.path() + "/no/log", {}, 45); }, ErrorKind::Io,
               folder_.path() + "/no/log");
  expect_error([&] { DigestLogWriter("/dev/null", {}, 45); }, ErrorKind::Options,
               "/dev/null: expected a file that may be replaced, found another kind");
}

class CompareLogsTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const DigestLogHeader& header,
                    const std::vector<DigestStep>& steps) const {
    const auto path = folder_.path() + "/" + name;
    DigestLogWriter writer(path, header);
    for (const auto& step : steps) writer.append(step);
    return path;
  }

  ScratchFolder folder_;
};

constexpr const char* kOnes = "1111111111111111";
constexpr const char* kTwos = "2222222222222222";

TEST_F(CompareLogsTest, FindsTheFirstCommonStepThatDiffers) {
  const auto a = write("a", {},
                       {{10, {1}, {{"x", kOnes}}},
                        {15, {9}, {}},
                        {20, {1, 2}, {{"x", kOnes}, {"y", kOnes}, {"z", kOnes}}},
                        {30, {5}, {}}});
  const auto b = write("b", {.replicas = 4, .facts = {{"k", "v"}}},
                       {{5, {7}, {}},
                        {10, {1}, {{"x", kOnes}}},
                        {20, {1, 3}, {{"x", kTwos}, {"z", kOnes}, {"zz", kTwos}}}});
  const auto result = compare_logs(a, b);
  EXPECT_THAT(result.facts, ElementsAre(::testing::Pair("k", ::testing::Pair("", "v")),
                                        ::testing::Pair("replicas", ::testing::Pair("1", "4"))));
  EXPECT_EQ(result.equal_steps, 1);
  EXPECT_EQ(result.last_equal, 10);
  EXPECT_TRUE(result.has_steps_of_one_only);
  ASSERT_TRUE(result.first_difference);
  const auto& found = *result.first_difference;
  EXPECT_EQ(found.step, 20);
  ASSERT_EQ(found.losses.size(), 1u);
  EXPECT_EQ(found.losses[0].replica, 1u);
  EXPECT_EQ(found.losses[0].a, 2);
  EXPECT_EQ(found.losses[0].b, 3);
  ASSERT_EQ(found.tensors.size(), 3u);
  EXPECT_EQ(found.tensors[0].tensor, "x");
  EXPECT_EQ(found.tensors[1].b, "");
  EXPECT_EQ(found.tensors[2].a, "");
}

TEST_F(CompareLogsTest, ComparesLossesByBitsAndByNumber) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto differs = [&](const std::vector<float>& a, const std::vector<float>& b) {
    return compare_logs(write("a", {}, {{1, a, {}}}), write("b", {}, {{1, b, {}}}))
        .first_difference.has_value();
  };
  EXPECT_FALSE(differs({nan, 0}, {nan, 0}));
  EXPECT_TRUE(differs({0.0F}, {-0.0F}));
  EXPECT_TRUE(differs({1}, {1, 2}));
  EXPECT_FALSE(differs({1, 2}, {})) << "a crash took them";
}

TEST_F(CompareLogsTest, SaysWhichStepsEachLogHasWhereNoneIsCommon) {
  std::vector<DigestStep> many;
  for (std::int64_t step = 1; step < 20; step += 2) many.push_back({step, {}, {}});
  const auto a = write("a", {}, {{2, {}, {}}, {4, {}, {}}});
  const auto b = write("b", {}, many);
  const auto none = write("none", {}, {});
  expect_error([&] { compare_logs(a, b); }, ErrorKind::Data,
               "diff: expected a step that both logs recorded, found the steps 2, 4 in " + a +
                   " and 10 steps, 1, 3, … 19 in " + b);
  expect_error([&] { compare_logs(none, a); }, ErrorKind::Data, "found no steps in " + none);
  expect_error([&] { compare_logs(none, none); }, ErrorKind::Data,
               "record both runs with the same --digest-every");
}

TEST(TensorDigestsTest, ChangeWithTheTensorAlone) {
  auto set = testing::every_type();
  const auto before = tensor_digests(set);
  EXPECT_EQ(before.size(), set.tensors.size());
  TensorSet alone;
  alone.tensors = {*in_order(set, "test").find("scalar")};
  EXPECT_EQ(before.at("scalar"), digest_of(alone));
  EXPECT_TRUE(before.contains("head"));  // the first name of t.f32
  set.tensors.front().bytes = testing::bytes_of_text("abcdef");
  auto after = tensor_digests(set);
  EXPECT_NE(after.at("t.bool"), before.at("t.bool"));
  after["t.bool"] = before.at("t.bool");
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace lockstep::weights
