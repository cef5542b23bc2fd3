// Event files, read back by a reader that shares nothing with the writer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "lockstep/monitor/export/crc32c.h"
#include "lockstep/monitor/export/tensorboard_log.h"
#include "lockstep/monitor/export/tensorboard_writer.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::monitor {
namespace {

using ::testing::EndsWith;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::ScratchFolder;

constexpr const char* kPython = "/usr/bin/python3";

testing::Finished read_back(const std::string& reader, const std::string& path) {
  return testing::run({kPython, READ_TENSORBOARD_SCRIPT, reader, path});
}

class TensorBoardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kPython)) GTEST_SKIP() << "python3 is not installed";
  }

  std::string own_reading(const std::string& path) {
    const auto result = read_back("own", path);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  ScratchFolder folder_;
};

/// Two curves and a text; no two values are the same.
std::string write_example(const std::string& folder) {
  TensorBoardWriter writer(folder, [seconds = 1794778807.0]() mutable { return seconds += 0.25; });
  writer.add_scalar("train/loss", 1, 2.5);
  writer.add_scalar("train/acc", 1, 12.25);
  writer.add_scalar("train/loss", 300, -0.125);
  writer.add_scalar("train/loss", std::int64_t{1} << 40, 1e-20);
  writer.add_text("notice", 7, "größer *als* \"eins\"\nzweite Zeile");
  return writer.path();
}

constexpr const char* kExample =
    "version [\"brain.Event:2\"]\n"
    "scalar [1, \"train/loss\", 2.5]\n"
    "scalar [1, \"train/acc\", 12.25]\n"
    "scalar [300, \"train/loss\", -0.125]\n"
    "scalar [1099511627776, \"train/loss\", 9.999999682655225e-21]\n"
    "text [7, \"notice\", \"gr\\u00f6\\u00dfer *als* \\\"eins\\\"\\nzweite Zeile\"]\n";

TEST(Crc32cTest, GivesThePublishedValues) {
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST_F(TensorBoardTest, WritesWhatAnIndependentReaderReadsBack) {
  EXPECT_EQ(own_reading(write_example(folder_.path())), std::string(kExample) + "whole\n");
}

TEST_F(TensorBoardTest, WritesWhatTensorBoardItselfReadsBack) {
  const auto result = read_back("theirs", write_example(folder_.path()));
  if (result.exit_code == 77) GTEST_SKIP() << "tensorboard is not installed";
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, kExample);
}

TEST_F(TensorBoardTest, IsReadableUpToWhereverItWasCut) {
  const auto path = write_example(folder_.path());
  const auto result = read_back("cuts", path);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 6) << result.out;
  EXPECT_THAT(result.out, EndsWith(std::to_string(std::filesystem::file_size(path)) + "\n"));
}

TEST_F(TensorBoardTest, ShowsEachValueAtOnce) {
  TensorBoardWriter writer(folder_.path());
  writer.add_scalar("a", 0, 1);
  EXPECT_THAT(own_reading(writer.path()), EndsWith("scalar [0, \"a\", 1.0]\nwhole\n"));
}

TEST_F(TensorBoardTest, KeepsFilesOfOneSecondApart) {
  const auto clock = [] { return 1794778807.5; };
  const TensorBoardWriter first(folder_.path(), clock);
  const TensorBoardWriter second(folder_.path(), clock);
  EXPECT_NE(first.path(), second.path());
  EXPECT_THAT(first.path(), HasSubstr("/events.out.tfevents.1794778807."));
}

TEST_F(TensorBoardTest, WritesNumbersThatAreNone) {
  TensorBoardWriter writer(folder_.path());
  writer.add_scalar("a", 0, std::numeric_limits<double>::quiet_NaN());
  writer.add_scalar("a", 1, std::numeric_limits<double>::infinity());
  EXPECT_THAT(own_reading(writer.path()),
              EndsWith("scalar [0, \"a\", NaN]\nscalar [1, \"a\", Infinity]\nwhole\n"));
}

TEST_F(TensorBoardTest, ReplacesWhatIsNoUtf8InATextAndRefusesItInATag) {
  TensorBoardWriter writer(folder_.path());
  writer.add_text("a", 0, "x\xffy");
  EXPECT_THAT(own_reading(writer.path()), EndsWith("text [0, \"a\", \"x?y\"]\nwhole\n"));
  expect_error([&] { writer.add_text("\xff", 0, "x"); }, ErrorKind::Options, "other bytes");
}

TEST_F(TensorBoardTest, RefusesWhatCannotBeShown) {
  TensorBoardWriter writer(folder_.path());
  expect_error([&] { writer.add_scalar("", 0, 1); }, ErrorKind::Options, "found an empty one");
  expect_error([&] { writer.add_scalar("a", -2, 1); }, ErrorKind::Options,
               "a: expected a step of 0 or more, found -2");
  expect_error([&] { writer.add_text("a", 0, std::string((16U << 20) + 1, 'x')); },
               ErrorKind::Options, "at most 16777216 bytes, found 16777217");
  EXPECT_EQ(own_reading(writer.path()), "version [\"brain.Event:2\"]\nwhole\n");
}

TEST_F(TensorBoardTest, NamesAFolderThatCannotBeMade) {
  const auto file = folder_.write("file", "");
  expect_error([&] { TensorBoardWriter(file + "/logs"); }, ErrorKind::Io, file + "/logs");
}

TEST_F(TensorBoardTest, NamesAFolderThatCannotBeWritten) {
  expect_error([&] { TensorBoardWriter("/proc"); }, ErrorKind::Io, "tensorboard: /proc/events");
}

TEST_F(TensorBoardTest, EndsTheFileWithAWholeEventWhenTheDiskIsFull) {
  // A limit on the size of files is what a test can have of a full disk.
  const auto result =
      testing::run({"/bin/bash", "-c", "ulimit -f 1; trap '' XFSZ; exec \"$0\" \"$1\"",
                    TENSORBOARD_FILLER_BINARY, folder_.path()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("only a part of an event could be written"));
  const auto path = std::filesystem::directory_iterator(folder_.path())->path().string();
  EXPECT_THAT(own_reading(path), EndsWith("\nwhole\n"));
}

StepResult result_of(double loss, double accuracy) {
  return {.loss = loss, .metrics = {{.name = "acc", .value = accuracy}}};
}

TEST_F(TensorBoardTest, KnowsTheStepOfAnEpochThatAnEarlierAttemptHasTrained) {
  TensorBoardLog log(folder_.path(), [](const std::string&) {});
  log.on_fit_begin({.epochs = 3, .iterations = 10});
  log.on_epoch_trained(3, {.loss = 1.25});
  log.on_validated(3, {.loss = 1.75});
  EXPECT_EQ(own_reading(log.path()),
            "version [\"brain.Event:2\"]\n"
            "scalar [30, \"epoch/loss\", 1.25]\n"
            "scalar [30, \"test/loss\", 1.75]\n"
            "whole\n");
}

TEST_F(TensorBoardTest, PutsTheCurvesOfATrainingOnOneAxis) {
  TensorBoardLog log(folder_.path(), [](const std::string&) {});
  log.on_fit_begin({.epochs = 2, .iterations = 10});
  IterationResult iteration;
  static_cast<StepResult&>(iteration) = result_of(1.5, 40);
  log.on_iteration(2, 3, iteration);
  log.on_epoch_trained(2, {.loss = 1.25});
  log.on_validated(2, result_of(1.75, 41));
  EXPECT_FALSE(log.on_notice("half as fast")) << "the user does not see it here";
  EXPECT_EQ(own_reading(log.path()),
            "version [\"brain.Event:2\"]\n"
            "scalar [13, \"train/loss\", 1.5]\n"
            "scalar [13, \"train/acc\", 40.0]\n"
            "scalar [20, \"epoch/loss\", 1.25]\n"
            "scalar [20, \"test/loss\", 1.75]\n"
            "scalar [20, \"test/acc\", 41.0]\n"
            "text [20, \"notice\", \"half as fast\"]\n"
            "whole\n");
}

}  // namespace
}  // namespace lockstep::monitor
