#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/data/made_files.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BenchDataTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  /// `lockstep …` with a cache of its own.
  Finished run(std::vector<std::string> arguments) const {
    return lockstep(std::move(arguments),
                    {.environment = {{"LOCKSTEP_CACHE_PATH", path("cache")}}});
  }

  ScratchFolder folder_;
};

TEST_F(BenchDataTest, HelpTellsTheOptions) {
  EXPECT_THAT(run({"bench", "--help"}).out, HasSubstr("data"));
  EXPECT_THAT(run({"bench", "data", "--help"}).out,
              AllOf(HasSubstr("Usage: lockstep bench data [options]"), HasSubstr("--pipeline"),
                    HasSubstr("--against"), HasSubstr("--workers")));
}

TEST_F(BenchDataTest, MeasuresEachPipelineAndWorkerCount) {
  const auto finished = run({"bench", "data", "--size", "500", "--rounds", "1", "--workers", "0,1",
                             "--json", path("out.json")});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out,
              AllOf(HasSubstr("load tutorial, batch 64"), HasSubstr("lockstep, 0 workers"),
                    HasSubstr("copying alone, 2 threads"), HasSubstr("images/s")));
  const auto json = nlohmann::json::parse(read_file(path("out.json")));
  EXPECT_EQ(json["bench"], "data");
  EXPECT_EQ(json["rows"].size(), 3U * 2 + 2);
  for (const auto& row : json["rows"]) EXPECT_GT(row["images_per_second"].get<double>(), 0);
}

TEST_F(BenchDataTest, MeasuresFilesBesideDecodingThem) {
  for (const auto* const name : {"cat", "dog"}) {
    std::filesystem::create_directories(path(std::string("pictures/train/") + name));
  }
  write_file(path("pictures/train/cat/1.jpg"), fixture("images/420.jpg"));
  write_file(path("pictures/train/cat/2.png"), fixture("images/rgb.png"));
  write_file(path("pictures/train/dog/1.jpg"), fixture("images/gray.jpg"));
  const auto finished = run({"bench", "data", "--dataset", "folder", "--data-dir", path("pictures"),
                             "--batch-size", "2", "--rounds", "1", "--pipeline", "standard"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("decoding alone"));
}

TEST_F(BenchDataTest, ComparesWithTorch) {
  if (!std::filesystem::exists("/usr/lib/python3/dist-packages/torchvision")) {
    GTEST_SKIP() << "python3-torchvision is not installed";
  }
  const auto finished = run({"bench", "data", "--size", "2000", "--rounds", "1", "--pipeline",
                             "tutorial", "--against", "torch"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("torch, 0 workers"), HasSubstr("torch, 4 workers")));
}

TEST_F(BenchDataTest, RefusesWhatItCannotMean) {
  EXPECT_THAT(run({"bench", "data", "--pipeline", "tutorail"}).err,
              HasSubstr("try: --pipeline tutorial"));
  EXPECT_EQ(run({"bench", "data", "--against", "jax"}).exit_code, 2);
  EXPECT_THAT(run({"bench", "data", "--size", "10"}).err,
              HasSubstr("one iteration takes 64 samples"));
}

}  // namespace
}  // namespace lockstep::testing
