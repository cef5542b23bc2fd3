// A PyTorch script that knows nothing of lockstep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

/// Debian's, which has python3-torch; another Python may stand before it in PATH.
constexpr const char* kPython = "/usr/bin/python3";

constexpr const char* kScript = R"(
import torch
import torch.distributed as dist
dist.init_process_group('gloo')
value = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(value)
print('sum', int(value.item()), flush=True)
dist.destroy_process_group()
)";

bool has_torch() {
  return run({kPython, "-c", "import torch.distributed"}).exit_code == 0;
}

TEST(RunTorchTest, RunsAnUnchangedScriptThatUsesTorchDistributed) {
  if (!has_torch()) GTEST_SKIP() << "python3-torch is not installed";
  const ScratchFolder folder;
  const auto script = folder.write("train.py", kScript);
  const auto result = lockstep({"run", "--num-instances", "3", kPython, script});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const auto* line : {"[0] sum 111\n", "[1] sum 111\n", "[2] sum 111\n"}) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
}

TEST(RunTorchTest, LetsManyJobsMeetOnPortsOfTheirOwn) {
  if (!has_torch()) GTEST_SKIP() << "python3-torch is not installed";
  const ScratchFolder folder;
  const auto script = folder.write("train.py", kScript);
  std::vector<std::unique_ptr<Subprocess>> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(std::make_unique<Subprocess>(
        lockstep_command({"run", "--num-instances", "2", kPython, script})));
  }
  for (auto& job : jobs) {
    const auto result = job->wait(120s);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("[1] sum 11\n"));
  }
}

}  // namespace
}  // namespace lockstep::testing
