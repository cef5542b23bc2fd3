#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Finished bench(std::vector<std::string> arguments, SubprocessOptions options = {}) {
  arguments.insert(arguments.begin(), {"bench", "comm"});
  return lockstep(std::move(arguments), std::move(options));
}

void expect_refused(std::vector<std::string> arguments, int exit_code, const std::string& message) {
  const auto result = bench(std::move(arguments));
  EXPECT_EQ(result.exit_code, exit_code);
  EXPECT_EQ(result.err, message);
}

/// The systems that this build and machine can measure.
std::vector<std::string> present_systems() {
  const auto libexec = std::filesystem::path(LOCKSTEP_BINARY).parent_path() / "../libexec/lockstep";
  std::vector<std::string> systems{"lockstep"};
  if (std::filesystem::exists(libexec / "lockstep-bench-gloo")) systems.emplace_back("gloo");
  const bool has_mpirun = run({"sh", "-c", "command -v mpirun"}).exit_code == 0;
  if (has_mpirun && std::filesystem::exists(libexec / "lockstep-bench-mpi")) {
    systems.emplace_back("mpi");
  }
  return systems;
}

struct Case {
  const char* op;
  double crossings;  ///< of each byte, with 2 instances

  friend void PrintTo(const Case& value, std::ostream* stream) { *stream << value.op; }
};

class BenchCommOperationTest : public ::testing::TestWithParam<Case> {};

TEST_P(BenchCommOperationTest, MeasuresEverySystemAtEverySize) {
  const ScratchFolder folder;
  const auto file = folder.path() + "/comm.json";
  const auto result = bench({"--op", GetParam().op, "--instances", "2", "--sizes", "4K,64K",
                             "--rounds", "2", "--json", file});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(read_file(file));
  EXPECT_EQ(json["bench"], "comm");

  std::size_t i = 0;
  for (const auto kib : {4, 64}) {
    for (const auto& system : present_systems()) {
      ASSERT_LT(i, json["rows"].size());
      const auto row = json["rows"][i++];
      const double median = row["median_s"];
      EXPECT_EQ(row["work"], fmt::format("{} {} KiB, 2 instances", GetParam().op, kib));
      EXPECT_EQ(row["system"], system);
      EXPECT_EQ(row["size_bytes"], kib * 1024);
      EXPECT_EQ(row["instances"], 2);
      EXPECT_DOUBLE_EQ(row["bus_gb_s"], GetParam().crossings * kib * 1024 / median / 1e9);
      EXPECT_EQ(row.contains("ratio"), system != "lockstep");
      EXPECT_GE(row["rounds"], 2);
    }
  }
  EXPECT_EQ(json["rows"].size(), i);
}

INSTANTIATE_TEST_SUITE_P(All, BenchCommOperationTest,
                         ::testing::Values(Case{"all_reduce", 1}, Case{"reduce_scatter", 0.5},
                                           Case{"all_gather", 0.5}, Case{"broadcast", 1}),
                         [](const auto& test) { return std::string(test.param.op); });

TEST(BenchCommTest, MeasuresEveryNumberOfInstances) {
  const auto result = bench({"--instances", "2,3", "--sizes", "12", "--against", "none"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("all_reduce 12 B, 2 instances  lockstep "));
  EXPECT_THAT(result.out, HasSubstr("all_reduce 12 B, 3 instances  lockstep "));
}

TEST(BenchCommTest, ShowsOnATerminalWhereItIs) {
  const auto result = lockstep(
      {"bench", "comm", "--instances", "2", "--sizes", "4", "--rounds", "1", "--against", "none"},
      {.terminal = true});
  EXPECT_THAT(result.out, StartsWith("\r\x1b[Kall_reduce 4 B, 2 instances\r\x1b[K"));
}

TEST(BenchCommTest, RefusesAnOptionThatCannotBeMeant) {
  expect_refused({"--op", "all_redcue"}, 2,
                 "lockstep: bench comm: --op: expected one of all_reduce, reduce_scatter, "
                 "all_gather, broadcast, found 'all_redcue'\n  try: --op all_reduce\n");
  expect_refused({"--against", "mpj"}, 2,
                 "lockstep: bench comm: --against: expected one of gloo, mpi, none, found 'mpj'\n"
                 "  try: --against mpi\n");
  expect_refused({"--against", "gloo,none"}, 2,
                 "lockstep: bench comm: --against: expected peers or 'none', found 'none' among "
                 "gloo,none\n  try: --against none\n");
  for (const auto* instances : {"0", "1", "2,257", "x"}) {
    const auto result = bench({"--instances", instances});
    EXPECT_EQ(result.exit_code, 2) << instances;
    EXPECT_THAT(result.err, StartsWith("lockstep: bench comm: --instances: Value "));
    EXPECT_THAT(result.err, HasSubstr("not in range 2 to 256\n"));
  }
}

TEST(BenchCommTest, RefusesASizeThatCannotBeMeasured) {
  expect_refused({"--sizes", "4K,4X"}, 2,
                 "lockstep: bench comm: --sizes: expected sizes such as 4096, 4K, 100M or 1G, "
                 "found '4X'\n  try: --sizes 4K,1M\n");
  const std::string expected =
      "lockstep: bench comm: --sizes: all_reduce over 2 instances takes f32, expected a multiple "
      "of 4 bytes up to 1 GiB, found ";
  expect_refused({"--sizes", "4K,0"}, 2, expected + "0\n  try: --sizes 4\n");
  expect_refused({"--sizes", "4098"}, 2, expected + "4098\n  try: --sizes 4096\n");
  expect_refused({"--sizes", "2G"}, 2, expected + "2147483648\n  try: --sizes 1073741824\n");
  expect_refused({"--sizes", "4K", "--instances", "3", "--op", "all_gather"}, 2,
                 "lockstep: bench comm: --sizes: all_gather over 3 instances takes f32, expected "
                 "a multiple of 12 bytes up to 1 GiB, found 4096\n  try: --sizes 4092\n");
}

/// Copies of `lockstep` and `lockstep-bench` in an own folder, with the peers that a test adds.
class LoneLockstep {
 public:
  LoneLockstep() {
    std::filesystem::create_directories(libexec_);
    std::filesystem::create_directory(folder_.path() + "/bin");
    std::filesystem::copy_file(LOCKSTEP_BINARY, binary_);
    std::filesystem::copy_file(LOCKSTEP_BENCH_BINARY, binary_ + "-bench");
  }

  void add_gloo(const std::string& script) const {
    folder_.write("libexec/lockstep/lockstep-bench-gloo", "#!/bin/sh\n" + script, 0755);
  }

  Finished bench(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {binary_, "bench", "comm", "--instances", "2", "--sizes",
                                         "4K", "--rounds", "1"});
    return run(std::move(arguments));
  }

  const std::string& libexec() const { return libexec_; }

 private:
  ScratchFolder folder_;
  std::string binary_ = folder_.path() + "/bin/lockstep";
  std::string libexec_ = folder_.path() + "/libexec/lockstep";
};

TEST(BenchCommPeersTest, AreLeftOutWithAWordWhereTheyAreNotBuilt) {
  const auto result = LoneLockstep().bench({});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "lockstep: bench comm: not in this build, so not measured: gloo, mpi\n");
  EXPECT_THAT(result.out, HasSubstr("all_reduce 4 KiB, 2 instances  lockstep "));
}

TEST(BenchCommPeersTest, AreUnavailableWhereTheyAreAskedForAndNotBuilt) {
  const LoneLockstep binary;
  const auto result = binary.bench({"--against", "gloo"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.err, "lockstep: bench comm: --against gloo: expected the program " +
                            binary.libexec() +
                            "/lockstep-bench-gloo, which is not here\n"
                            "  try: apt-get install libgloo-dev, and build with "
                            "-DLOCKSTEP_BUILD_BENCHMARKS=ON\n");
}

TEST(BenchCommPeersTest, AreNotComparedWithWhereTheyComputeWrong) {
  const LoneLockstep binary;
  binary.add_gloo("exec " COMM_DOUBLE_BINARY " wrong \"$1\"\n");
  const auto result = binary.bench({"--against", "gloo"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("lockstep: bench comm: all_reduce 4 KiB, 2 instances: gloo "
                                    "computes wrong: element 0 of instance 0 is "));
  EXPECT_EQ(result.out, "");
}

TEST(BenchCommPeersTest, AreReportedWhereTheyFail) {
  const LoneLockstep binary;
  binary.add_gloo("exit 3\n");
  const auto result = binary.bench({"--against", "gloo"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("lockstep: bench comm: gloo with 2 instances failed before all "
                                    "instances were ready, with exit code 3\n  try: read above "
                                    "what it wrote, or leave it out with --against\n"));
}

TEST(BenchCommFaultTest, LeavesNoProcessBehindWhereItIsKilled) {
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    const auto mark = unique_mark("bench-comm");
    const ScratchFolder folder;  // for what a killed driver cannot remove
    Subprocess job(
        lockstep_command(
            {"bench", "comm", "--instances", "3", "--sizes", "1M", "--rounds", "10000"}),
        {.environment = {
             {"BENCH_COMM_TEST", mark}, {"XDG_RUNTIME_DIR", ""}, {"TMPDIR", folder.path()}}});
    // The driver, and for each system a launcher and its three workers at least.
    const auto all = 1 + 4 * present_systems().size();
    const auto left = [&] { return processes_with("BENCH_COMM_TEST=" + mark).size(); };
    ASSERT_TRUE(eventually([&] { return left() >= all; }, 20s));
    job.signal(signal);
    EXPECT_EQ(job.wait().signal, signal);
    EXPECT_TRUE(eventually([&] { return left() == 0; }, 20s)) << left() << " after " << signal;
  }
}

}  // namespace
}  // namespace lockstep::testing
