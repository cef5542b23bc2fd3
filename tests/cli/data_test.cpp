#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/data/made_files.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DataCommandTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  /// `lockstep …` with a cache of its own.
  Finished run(std::vector<std::string> arguments) const {
    return lockstep(std::move(arguments),
                    {.environment = {{"LOCKSTEP_CACHE_PATH", path("cache")}}});
  }

  /// Three pictures in two classes.
  void write_folder() const {
    for (const auto* const name : {"cat", "dog"}) {
      std::filesystem::create_directories(path(std::string("pictures/train/") + name));
    }
    write_file(path("pictures/train/cat/1.jpg"), fixture("images/420.jpg"));
    write_file(path("pictures/train/cat/2.png"), fixture("images/rgb.png"));
    write_file(path("pictures/train/dog/1.jpg"), fixture("images/gray.jpg"));
  }

  ScratchFolder folder_;
};

TEST_F(DataCommandTest, PacksAMadeUpSetAndTellsWhatIsInIt) {
  std::filesystem::create_directory(path("packs"));
  const auto packed = run({"data", "pack", "--dataset", "synthetic", "--size", "100", "--classes",
                           "4", "--image-size", "8x9x1", "--output", path("packs")});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_THAT(packed.out, AllOf(HasSubstr("synthetic-train: 100 samples, "),
                                HasSubstr("synthetic-test: 100 samples, ")));
  const auto told =
      run({"data", "info", "--dataset", path("packs/synthetic-train.pack"), "--verify"});
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_THAT(told.out, AllOf(HasSubstr("image u8 [8, 9, 1]"), HasSubstr("label i64 []"),
                              HasSubstr("4: class 0, class 1"), HasSubstr("decoded"),
                              HasSubstr("every sample was read")));
}

TEST_F(DataCommandTest, PacksPicturesDecodedOrAsStored) {
  write_folder();
  for (const bool as_stored : {false, true}) {
    std::vector<std::string> arguments{"data",     "pack",        "--dataset",  "folder",
                                       "--split",  "train",       "--data-dir", path("pictures"),
                                       "--output", path("a.pack")};
    if (as_stored) arguments.emplace_back("--as-stored");
    const auto packed = run(arguments);
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    const auto told = run({"data", "info", "--dataset", path("a.pack"), "--verify"});
    EXPECT_THAT(told.out, AllOf(HasSubstr("samples"), HasSubstr("image u8 [any, any, 3]"),
                                HasSubstr("2: cat, dog"),
                                HasSubstr(as_stored ? "files as they were" : "decoded")));
  }
}

TEST_F(DataCommandTest, APackOfPicturesInTheCacheIsFoundAgain) {
  write_folder();
  const std::vector<std::string> where{"--dataset", "folder",     "--split",
                                       "train",     "--data-dir", path("pictures")};
  std::vector<std::string> arguments{"data", "info"};
  arguments.insert(arguments.end(), where.begin(), where.end());
  EXPECT_THAT(run(arguments).out, ::testing::Not(HasSubstr("pack")));
  arguments[1] = "pack";
  EXPECT_EQ(run(arguments).exit_code, 0);
  arguments[1] = "info";
  EXPECT_THAT(run(arguments).out, HasSubstr("decoded"));
}

TEST_F(DataCommandTest, PacksInTheCacheAreWhatWasAskedFor) {
  const auto pack = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"data", "pack", "--split", "train"});
    return run(options).out;
  };
  EXPECT_THAT(pack({"--dataset", "synthetic", "--size", "70"}), HasSubstr("70 samples"));
  EXPECT_THAT(pack({"--dataset", "synthetic", "--size", "80"}), HasSubstr("80 samples"));
  write_folder();
  const auto decoded = pack({"--dataset", "folder", "--data-dir", path("pictures")});
  EXPECT_NE(pack({"--dataset", "folder", "--data-dir", path("pictures"), "--as-stored"}), decoded);
}

TEST_F(DataCommandTest, ASetWithoutATestSplitIsPackedAllTheSame) {
  write_folder();
  std::filesystem::rename(path("pictures/train"), path("plain"));
  const auto packed = run({"data", "pack", "--dataset", "folder", "--data-dir", path("plain")});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_THAT(packed.out, HasSubstr("folder-train: 3 samples"));
  EXPECT_THAT(packed.err, HasSubstr("has no folder 'train'"));
  const auto told = run({"data", "info", "--dataset", "folder", "--data-dir", path("plain")});
  EXPECT_EQ(told.exit_code, 0) << told.err;
}

TEST_F(DataCommandTest, ADamagedPackIsMendedAsTheMessageSays) {
  write_folder();
  const std::vector<std::string> set{"--dataset",      "folder",  "--data-dir",
                                     path("pictures"), "--split", "train"};
  const auto with = [&](std::vector<std::string> command) {
    command.insert(command.end(), set.begin(), set.end());
    return run(command);
  };
  with({"data", "pack"});
  const auto pack = std::filesystem::directory_iterator(path("cache/packs"))->path();
  auto bytes = read_file(pack);
  bytes[5000] ^= 1;
  write_file(pack, bytes);
  const auto refused = with({"data", "info", "--verify"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("try: make the pack again: lockstep data pack"));
  EXPECT_EQ(with({"data", "pack"}).exit_code, 0);
  EXPECT_EQ(with({"data", "info", "--verify"}).exit_code, 0);
}

TEST_F(DataCommandTest, EveryMistakeHasItsExitCode) {
  const auto expect = [&](std::vector<std::string> arguments, int code, const std::string& text) {
    const auto finished = run(std::move(arguments));
    EXPECT_EQ(finished.exit_code, code) << finished.err;
    EXPECT_THAT(finished.err, AllOf(StartsWith("lockstep: "), HasSubstr(text)));
  };
  expect({"data"}, 2, "data: A subcommand is required");
  expect({"data", "info", "--dataset", "cifar11"}, 2, "did you mean 'cifar10'?");
  expect({"data", "info", "--dataset", "cifar10", "--data-dir", folder_.path()}, 3,
         "cs.toronto.edu");
  expect({"data", "info", "--split", "both"}, 2, "data info: --split: expected");
  expect({"data", "info", "--dataset", "synthetic", "--image-size", "8by8"}, 2,
         "--image-size: expected HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS, each from 1 to 65536, "
         "found '8by8'");
  expect({"data", "info", "--dataset", "synthetic", "--size", "0"}, 2, "size: expected 1 to");
  expect({"data", "info", "--dataset", path("absent.pack")}, 3, "expected a pack, found no file");
  expect({"data", "pack", "--dataset", path("absent.pack")}, 2, "expected a set (cifar10");
  expect({"data", "pack", "--dataset", "synthetic", "--split", "train", "--output", "/dev/null"}, 2,
         "/dev/null: expected a file that may be replaced");
  expect({"data", "pack", "--dataset", "synthetic", "--output", std::string(300, 'x')}, 2,
         "expected a folder for 2 packs");
  expect({"data", "pack", "--dataset", "synthetic", "--output", path("one.pack")}, 2,
         "--output: expected a folder for 2 packs");
  expect({"data", "pack", "--dataset", "synthetic", "--split", "train", "--as-stored", "--output",
          path("one.pack")},
         2, "this set has no file for each picture");
  expect({"data", "pack", "--colour"}, 2, "unknown option '--colour'");
  write_file(path("bad.pack"), "not a pack, however long it may be: it has more than 64 bytes....");
  expect({"data", "info", "--dataset", path("bad.pack")}, 3,
         "bad.pack: at byte 0: expected a pack");
}

TEST_F(DataCommandTest, InstancesShareOnePackAndOneOfThemSpeaks) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
  const auto finished = run({"run", "--num-instances", "4", "--tag-output", "never", "--",
                             LOCKSTEP_BINARY, "data", "info", "--split", "test"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  const std::string line = "fashion-mnist-test: files found, checksums are correct\n";
  const auto first = finished.err.find(line);
  ASSERT_NE(first, std::string::npos) << finished.err;
  EXPECT_EQ(finished.err.find(line, first + 1), std::string::npos) << finished.err;
  const auto packs = std::filesystem::directory_iterator(path("cache/packs"));
  EXPECT_EQ(std::distance(packs, {}), 1);
}

TEST_F(DataCommandTest, AnExampleDividesASetAmongInstances) {
  const auto alone = run({"run", "--num-replicas", "4", LOAD_DATA_BINARY});
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("instance 0: 780 batches, 49920 of 50000 samples"));
  const auto two = run({"run", "--num-replicas", "4", "--num-instances", "2", LOAD_DATA_BINARY});
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_THAT(two.out, AllOf(HasSubstr("[0] instance 0: 390 batches, 24960 of 50000 samples"),
                             HasSubstr("[1] instance 1: 390 batches, 24960 of 50000 samples")));
}

TEST_F(DataCommandTest, HelpTellsTheOptions) {
  EXPECT_THAT(run({"--help"}).out, HasSubstr("data      show or pack datasets"));
  EXPECT_THAT(run({"data", "--help"}).out, AllOf(HasSubstr("pack"), HasSubstr("info")));
  EXPECT_THAT(run({"data", "pack", "--help"}).out,
              AllOf(HasSubstr("Usage: lockstep data pack [options]"), HasSubstr("--as-stored"),
                    HasSubstr("--data-dir"), HasSubstr("--image-size")));
}

}  // namespace
}  // namespace lockstep::testing
