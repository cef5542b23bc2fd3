#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(BenchBinaryTest, LinksNeitherTorchNorMpi) {
  const auto libraries = run({"ldd", LOCKSTEP_BENCH_BINARY});
  EXPECT_EQ(libraries.exit_code, 0);
  EXPECT_THAT(libraries.out, Not(HasSubstr("torch")));
  EXPECT_THAT(libraries.out, Not(HasSubstr("mpi")));
}

TEST(BenchLaunchTest, MeasuresOurselvesBesideMpirunAndWritesJson) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/launch.json";
  const auto result = lockstep({"bench", "launch", "--rounds", "3", "--json", file});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(json["rows"][0]["work"], "start 4 empty processes");
  EXPECT_EQ(json["rows"][0]["system"], "lockstep");
  const bool has_mpirun = run({"sh", "-c", "command -v mpirun"}).exit_code == 0;
  ASSERT_EQ(json["rows"].size(), has_mpirun ? 4U : 3U);
  if (!has_mpirun) GTEST_SKIP() << "no mpirun here to compare with";
  const bool sanitized = lockstep({"doctor"}).out.find("sanitizers  none") == std::string::npos;
  EXPECT_TRUE(sanitized || json["rows"][1]["ratio"] <= 1.0) << result.out;
}

TEST(BenchLaunchTest, MeasuresOurselvesAloneWhereThereIsNoMpirun) {
  const ScratchFolder bin;
  run({"ln", "-s", "/bin/true", "/bin/echo", bin.path()});
  const auto result =
      lockstep({"bench", "launch", "--rounds", "1"}, {.environment = {{"PATH", bin.path()}}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("mpirun")));
}

TEST(BenchLaunchTest, MeasuresProcessesThatMeetBesideThoseOfPython) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/launch.json";
  const auto result = lockstep({"bench", "launch", "--instances", "3", "--rounds", "1", "--against",
                                "torch", "--json", file});
  if (result.exit_code == 4) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(read_file(file));
  std::vector<nlohmann::json> meetings;
  for (const auto& row : json["rows"]) {
    if (row["work"] == "start 3 processes that meet once") meetings.push_back(row);
  }
  ASSERT_EQ(meetings.size(), 2U) << result.out;
  EXPECT_EQ(meetings[0]["system"], "lockstep");
  EXPECT_FALSE(meetings[0].contains("ratio"));
  EXPECT_EQ(meetings[1]["system"], "torch");
  const double ours = meetings[0]["median_s"];
  const double theirs = meetings[1]["median_s"];
  EXPECT_DOUBLE_EQ(meetings[1]["ratio"], ours / theirs);
}

TEST(BenchLaunchTest, CountsThoseThatMeet) {
  const auto result = lockstep(
      {"run", "--num-instances", "3", "--tag-output", "never", LOCKSTEP_BENCH_BINARY, "meet"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "met 3\nmet 3\nmet 3\n");
}

TEST(BenchLaunchTest, SaysWhatAgainstMayBe) {
  const auto result = lockstep({"bench", "launch", "--against", "torhc"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "lockstep: bench launch: --against: expected one of torch, none, found 'torhc'\n"
            "  try: --against torch\n");
}

/// Copies of `lockstep` and `lockstep-bench` in an own folder, and a Python that prints what a test
/// wants.
class LoneLaunch {
 public:
  LoneLaunch() {
    std::filesystem::create_directories(folder_.path() + "/bin");
    std::filesystem::create_directories(folder_.path() + "/libexec/lockstep");
    std::filesystem::copy_file(LOCKSTEP_BINARY, folder_.path() + "/bin/lockstep");
    std::filesystem::copy_file(LOCKSTEP_BENCH_BINARY, folder_.path() + "/bin/lockstep-bench");
  }

  /// "-c" is the question whether it has torch.
  void add_python(const std::string& answer) const {
    folder_.write("libexec/lockstep/torch_meet.py", "");
    folder_.write("bin/python3", "#!/bin/sh\n[ $1 = -c ] || echo " + answer + "\n", 0755);
  }

  Finished bench() const {
    return run({folder_.path() + "/bin/lockstep", "bench", "launch", "--instances", "2", "--rounds",
                "1", "--against", "torch"},
               {.environment = {{"PATH", folder_.path() + "/bin:/bin"}}});
  }

  const std::string& path() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
};

TEST(BenchLaunchPeersTest, AreUnavailableWhereTheyAreNotBuilt) {
  const LoneLaunch launch;
  const auto result = launch.bench();
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.err, "lockstep: bench launch: --against torch: expected the script " +
                            launch.path() +
                            "/libexec/lockstep/torch_meet.py, which is not here\n"
                            "  try: build with -DLOCKSTEP_BUILD_BENCHMARKS=ON\n");
}

TEST(BenchLaunchPeersTest, AreMeasuredWhereAllOfThemMet) {
  const LoneLaunch launch;
  launch.add_python("met 2");
  const auto result = launch.bench();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, ::testing::ContainsRegex("start 2 processes that meet once +torch "));
}

TEST(BenchLaunchPeersTest, AreNotComparedWithWhereTheyMetOtherNumbers) {
  const LoneLaunch launch;
  launch.add_python("met 1");
  const auto result = launch.bench();
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("wrote 'met 1\nmet 1\n', expected 'met 2\nmet 2\n'"));
}

TEST(BenchTest, ShowsItsCommands) {
  const auto result = lockstep({"bench", "--help"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Usage: lockstep bench launch|comm|data|train|pipeline"));
  EXPECT_THAT(result.out, HasSubstr("measure the start and end of processes"));
  EXPECT_THAT(result.out, Not(HasSubstr("worker")));
}

TEST(BenchTest, RefusesAnUnknownOptionOfASubcommand) {
  for (const auto* command : {"launch", "comm", "data", "train", "pipeline"}) {
    const auto result = lockstep({"bench", command, "--roundz", "3"});
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_EQ(result.err, std::string("lockstep: bench ") + command +
                              ": unknown option '--roundz'\n  try: --rounds\n");
  }
}

TEST(BenchTest, SaysSoWhenItsOutputCannotBeWritten) {
  const auto result = run({"sh", "-c", std::string(LOCKSTEP_BINARY) + " bench --help > /dev/full"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("standard output: No space left on device"));
}

TEST(BenchTest, RefusesWhatItCannotMeasure) {
  EXPECT_EQ(lockstep({"bench"}).exit_code, 2);
  EXPECT_EQ(lockstep({"bench", "coffee"}).exit_code, 2);
  EXPECT_EQ(lockstep({"bench", "launch", "--rounds", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace lockstep::testing
