#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "lockstep/base/file.h"
#include "lockstep/weights/digest_log.h"
#include "lockstep/weights/weight_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using weights::DigestLogHeader;
using weights::DigestStep;
using weights::ElementType;
using weights::TensorSet;
using weights::write_weights;

class DiffTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  Finished diff(const std::string& a, const std::string& b) const {
    return lockstep({"diff", path(a), path(b)});
  }

  void expect(const std::string& a, const std::string& b, int code, const std::string& out) const {
    const auto result = diff(a, b);
    EXPECT_EQ(result.exit_code, code);
    EXPECT_EQ(result.out, out);
    EXPECT_EQ(result.err, "");
  }

  void expect_error(const std::string& a, const std::string& b, int code,
                    const std::string& err) const {
    const auto result = diff(a, b);
    EXPECT_EQ(result.exit_code, code);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("lockstep: " + err));
  }

  /// A log in a folder of its own.
  void write_log(const std::string& name, const std::vector<DigestStep>& steps,
                 const DigestLogHeader& header = {}) const {
    std::filesystem::create_directory(path(name));
    weights::DigestLogWriter writer(path(name) + "/digests.jsonl", header);
    for (const auto& step : steps) writer.append(step);
  }

  ScratchFolder folder_;
};

constexpr const char* kOne = "0123456789abcdef";
constexpr const char* kTwo = "fedcba9876543210";

/// Three steps that are the same in every run.
std::vector<DigestStep> three_steps() {
  return {{20, {0.5F, 0.25F}, {{"conv.weight", kOne}, {"fc.bias", kOne}, {"fc.weight", kOne}}},
          {40, {0.5F, 0.25F}, {{"conv.weight", kOne}, {"fc.bias", kOne}, {"fc.weight", kOne}}},
          {60, {0.5F, 0.25F}, {{"conv.weight", kOne}, {"fc.bias", kOne}, {"fc.weight", kOne}}}};
}

TEST_F(DiffTest, SaysThatRunsAgree) {
  write_log("a", three_steps());
  write_log("b", three_steps());
  expect("a", "b", 0, "the runs agree in all 3 recorded steps\n");
  expect("a/digests.jsonl", "b", 0, "the runs agree in all 3 recorded steps\n");
  // By content, whatever its name.
  std::filesystem::copy_file(path("b/digests.jsonl"), path("log of b"));
  expect("a", "log of b", 0, "the runs agree in all 3 recorded steps\n");
}

TEST_F(DiffTest, SaysThatRunsAgreeInWhatBothRecorded) {
  auto longer = three_steps();
  longer.push_back({80, {1}, {}});
  write_log("a", three_steps(), {.replicas = 2, .facts = {{"instances", "1"}}});
  write_log("b", longer, {.replicas = 2, .facts = {{"instances", "2"}, {"host", "x"}}});
  expect("a", "b", 0,
         "the runs have different options: host none and x\n"
         "the runs have different options: instances 1 and 2\n"
         "the runs agree in all 3 steps that both recorded\n");
}

TEST_F(DiffTest, NamesTheFirstStepAndTensorThatDiffer) {
  auto other = three_steps();
  other[1].tensors["fc.weight"] = kTwo;
  other[2].losses[0] = 7;
  write_log("a", three_steps());
  write_log("b", other);
  expect("a", "b", 1,
         "the runs differ first at step 40: tensor 'fc.weight' (digest 0123456789abcdef and "
         "fedcba9876543210)\n"
         "the last step at which they agree: 20\n");
}

TEST_F(DiffTest, CountsWhatElseDiffersAtThatStep) {
  auto other = three_steps();
  other[0].losses = {0.5F, -0.25F};
  other[0].tensors = {{"conv.weight", kTwo}, {"fc.weight", kTwo}};
  write_log("a", three_steps(), {.replicas = 8});
  write_log("b", other, {.replicas = 4});
  expect("a", "b", 1,
         "the runs have different options: replicas 8 and 4\n"
         "the runs differ first at step 20: loss of replica 1 (0.25 and -0.25)\n"
         "the runs differ first at step 20: tensor 'conv.weight' (digest 0123456789abcdef and "
         "fedcba9876543210), and 2 others\n"
         "the last step at which they agree: none was recorded\n");
}

TEST_F(DiffTest, TellsLossesOfOtherNumber) {
  auto other = three_steps();
  for (auto& step : other) step.losses = {1.5F, 2.5F, 3.5F};
  write_log("a", three_steps());
  write_log("b", other);
  expect("a", "b", 1,
         "the runs differ first at step 20: 2 losses in the first run, 3 in the second\n"
         "the runs differ first at step 20: loss of replica 0 (0.5 and 1.5), and 1 other\n"
         "the last step at which they agree: none was recorded\n");
}

TEST_F(DiffTest, RefusesLogsWithoutACommonStep) {
  write_log("a", {{10, {}, {}}, {20, {}, {}}});
  write_log("b", {{15, {}, {}}});
  expect_error("a", "b", 3,
               "diff: expected a step that both logs recorded, found the steps 10, 20 in " +
                   path("a/digests.jsonl") + " and the steps 15 in " + path("b/digests.jsonl") +
                   "\n  try: record both runs with the same --digest-every\n");
}

TEST_F(DiffTest, RefusesDamagedAndMissingLogs) {
  write_log("a", three_steps());
  write_file(path("bad.jsonl"), read_file(path("a/digests.jsonl")) + "{\n");
  expect_error("a", "bad.jsonl", 3, path("bad.jsonl") + ": line 5: expected an object of JSON");
  write_file(path("empty.jsonl"), "");
  expect_error("a", "empty.jsonl", 3, path("empty.jsonl") + ": expected a digest log");
  expect_error("a", "none.jsonl", 5, "read " + path("none.jsonl") + ": No such file");
  std::filesystem::create_directory(path("folder"));
  expect_error("a", "folder", 3,
               "diff: " + path("folder") +
                   ": expected a folder that contains digests.jsonl, found none in it\n"
                   "  try: record a run with lockstep train --digest-every 10 --log-dir " +
                   path("folder"));
}

void add_floats(TensorSet& set, const std::string& name, const std::vector<float>& values) {
  add_tensor(set, name, ElementType::F32, {static_cast<std::int64_t>(values.size())},
             {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

TEST_F(DiffTest, SaysThatWeightFilesAgreeWhateverTheirFormat) {
  const auto set = every_torch_type();
  write_weights(path("a.safetensors"), set);
  write_weights(path("b.pt"), set);
  const auto digest = weights::read_weights(path("b.pt")).digest();
  expect("a.safetensors", "b.pt", 0,
         "the files agree in all 12 tensors, weights: " + digest + "\n");
}

TEST_F(DiffTest, TellsEachTensorThatDiffers) {
  TensorSet a;
  TensorSet b;
  add_floats(a, "conv", {1, 2, 3, 4});
  add_floats(b, "conv", {1, 2.5, 1, 4});
  add_floats(a, "equal", {1});
  add_floats(b, "equal", {1});
  add_floats(a, "gone", {1});
  add_floats(b, "new", {1, 2});
  add_floats(a, "nan", {1});
  add_floats(b, "nan", {std::numeric_limits<float>::quiet_NaN()});
  add_floats(a, "shape", {1, 2});
  add_floats(b, "shape", {1, 2, 3});
  add_tensor(a, "steps", ElementType::I64, {2}, "0123456701234567");
  add_tensor(b, "steps", ElementType::I64, {2}, "0123456701234568");
  write_weights(path("a.safetensors"), a);
  write_weights(path("b.pth"), b);
  expect("a.safetensors", "b.pth", 1,
         "the files differ in 6 of 7 tensors\n"
         "  'conv': 2 of 4 elements differ, most by 2 at index 2: 3 and 1\n"
         "  'gone': only in " +
             path("a.safetensors") +
             ", f32 [1]\n"
             "  'nan': 1 of 1 elements differ, most by nan at index 0: 1 and nan\n"
             "  'new': only in " +
             path("b.pth") +
             ", f32 [2]\n"
             "  'shape': f32 [2] and f32 [3]\n"
             "  'steps': 1 of 2 elements differ, first at index 1\n");
}

TEST_F(DiffTest, ListsTenTensorsOrAll) {
  TensorSet a;
  TensorSet b;
  for (int i = 10; i < 22; ++i) add_floats(a, "t" + std::to_string(i), {1});
  for (int i = 10; i < 22; ++i) add_floats(b, "t" + std::to_string(i), {2});
  write_weights(path("a.pt"), a);
  write_weights(path("b.pt"), b);
  const auto some = diff("a.pt", "b.pt");
  EXPECT_THAT(some.out, HasSubstr("'t19': 1 of 1"));
  EXPECT_THAT(some.out, ::testing::EndsWith("  and 2 more; --all lists them\n"));
  const auto all = lockstep({"diff", "--all", path("a.pt"), path("b.pt")});
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_THAT(all.out, HasSubstr("'t21': 1 of 1"));
}

TEST_F(DiffTest, RefusesWhatItCannotCompare) {
  write_log("a", three_steps());
  write_weights(path("w.pt"), {});
  expect_error("a", "w.pt", 2,
               "diff: expected two digest logs or two weight files, found a digest log, " +
                   path("a/digests.jsonl") + ", and a weight file, " + path("w.pt"));
  expect_error("w.pt", "none.pt", 5, path("none.pt") + ": No such file or directory");
  write_file(path("text.pt"), "no weights at all");
  expect_error("w.pt", "text.pt", 3, path("text.pt") + ": expected a safetensors file or a state");
}

TEST_F(DiffTest, RefusesWrongArguments) {
  const auto one = lockstep({"diff", "a"});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, HasSubstr("lockstep: diff: B is required"));
  EXPECT_EQ(lockstep({"diff"}).exit_code, 2);
  EXPECT_EQ(lockstep({"diff", "a", "b", "c"}).exit_code, 2);
  EXPECT_EQ(lockstep({"diff", "a", "b", "--al"}).err,
            "lockstep: diff: unknown option '--al'\n  try: --all\n");
}

TEST_F(DiffTest, HelpTellsTheExitCodes) {
  const auto help = lockstep({"diff", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Usage: lockstep diff [options] A B"));
  EXPECT_THAT(help.out, HasSubstr("0 if A and B agree, 1 if they differ"));
  EXPECT_THAT(help.out, HasSubstr("--digest-every"));
}

TEST_F(DiffTest, SaysSoWhenItsOutputCannotBeWritten) {
  auto other = three_steps();
  other[0].losses[0] = 7;
  write_log("a", three_steps());
  write_log("b", other);
  const auto result =
      run({"sh", "-c",
           std::string(LOCKSTEP_BINARY) + " diff " + path("a") + " " + path("b") + " > /dev/full"});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("standard output: No space left on device"));
}

}  // namespace
}  // namespace lockstep::testing
