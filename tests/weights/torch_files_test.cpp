// Files that PyTorch writes and reads, where python3-torch is installed.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "lockstep/weights/weight_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using testing::Finished;
using testing::ScratchFolder;

/// Debian's, which has python3-torch; another Python may stand before it in PATH.
constexpr const char* kPython = "/usr/bin/python3";

bool has_torch() {
  return testing::run({kPython, "-c", "import torch"}).exit_code == 0;
}

Finished torch_files(const std::string& command, const std::string& path) {
  return testing::run({kPython, TORCH_FILES_SCRIPT, command, path});
}

/// As torch_files.py prints it.
std::string describe(const WeightFile& file) {
  std::vector<std::string> ties;
  for (const auto& tie : file.ties()) ties.push_back(tie.name + "=" + tie.kept);
  for (const auto& tie : file.possible_ties()) ties.push_back(tie.name + "=" + tie.kept);
  return fmt::format("{} {}", file.digest(),
                     ties.empty() ? "-" : fmt::format("{}", fmt::join(ties, ",")));
}

TEST(TorchFilesTest, AreReadAsTorchReadsThem) {
  if (!has_torch()) GTEST_SKIP() << "python3-torch is not installed";
  const ScratchFolder folder;
  const auto made = torch_files("make", folder.path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  std::istringstream lines(made.out);
  int count = 0;
  for (std::string name, expected; lines >> name && std::getline(lines >> std::ws, expected);) {
    EXPECT_EQ(describe(read_weights(folder.path() + "/" + name)), expected) << name;
    ++count;
  }
  EXPECT_EQ(count, 8);
}

TEST(TorchFilesTest, AreWrittenAsTorchReadsThem) {
  if (!has_torch()) GTEST_SKIP() << "python3-torch is not installed";
  const ScratchFolder folder;
  write_weights(folder.path() + "/made.pt", testing::every_torch_type());
  // Also what PyTorch once wrote: names beyond ASCII, Parameters, views.
  write_weights(folder.path() + "/example.pt",
                read_weights(testing::weight_fixture("legacy.pt")).set());
  for (const auto* const name : {"/made.pt", "/example.pt"}) {
    const auto path = folder.path() + name;
    const auto loaded = torch_files("load", path);
    EXPECT_EQ(loaded.out, describe(read_weights(path)) + "\n") << loaded.err;
  }
}

TEST(TorchFilesTest, SafetensorsAreWhatTheirFormatSays) {
  if (testing::run({kPython, "-c", "import ctypes; ctypes.CDLL('libxxhash.so.0')"}).exit_code !=
      0) {
    GTEST_SKIP() << "python3 is not installed";
  }
  const ScratchFolder folder;
  const auto path = folder.path() + "/w.safetensors";
  write_weights(path, testing::every_type());
  const auto loaded = torch_files("safetensors", path);
  EXPECT_EQ(loaded.out, describe(read_weights(path)) + "\n") << loaded.err;
}

}  // namespace
}  // namespace lockstep::weights
