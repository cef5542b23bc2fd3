#include "tests/cli/train_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSmallPlan =
    "--model resnet20 --dataset synthetic --size 512 --image-size 16x16 --batch-size 8";

/// Plans that are kept in a folder of the test.
class PlanTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  Finished plan(const std::string& options) const {
    return lockstep(words(std::string("plan ") + kSmallPlan + " --cache-path " + path("cache") +
                          " " + options));
  }

  nlohmann::json json_of(const std::string& options) const {
    const auto finished = plan(options + " --json " + path("plan.json"));
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.exit_code == 0 ? nlohmann::json::parse(read_file(path("plan.json")))
                                   : nlohmann::json::object();
  }

  ScratchFolder folder_;
};

/// The line that names the key, and whether the plan was there.
std::string key_line(const Finished& finished) {
  const auto begin = finished.out.find("cache key ");
  EXPECT_NE(begin, std::string::npos) << finished.out << finished.err;
  if (begin == std::string::npos) return "";
  return finished.out.substr(begin, finished.out.find('\n', begin) - begin);
}

TEST_F(PlanTest, ShowsEachInstanceWithItsReplicas) {
  const auto finished = plan("--replicas 8 --num-instances 3");
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_THAT(finished.out, AllOf(ContainsRegex("\nresnet20  R=8 I=3 S=1 T=[0-9]+ B=8 G=1\n"),
                                  ContainsRegex("\n0 +0-2 "), ContainsRegex("\n1 +3-5 "),
                                  ContainsRegex("\n2 +6-7 "), Not(ContainsRegex("\n3 +"))));
}

TEST_F(PlanTest, TrainsNothing) {
  const auto finished = plan("--epochs 1 --replicas 2 --export " + path("w.safetensors") +
                             " --summary " + path("s.json"));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(Not(HasSubstr("Epoch")), Not(HasSubstr("weights:"))));
  EXPECT_FALSE(std::filesystem::exists(path("w.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(path("s.json")));
}

TEST_F(PlanTest, IsMadeOnce) {
  const auto options = "--replicas 8 --num-instances 3";
  const auto first = key_line(plan(options));
  const auto second = key_line(plan(options));
  EXPECT_THAT(first, ContainsRegex("^cache key [0-9a-f]{16}  \\(new\\)$"));
  EXPECT_THAT(second, ContainsRegex("^cache key [0-9a-f]{16}  \\(cached\\)$"));
  EXPECT_EQ(first.substr(0, 26), second.substr(0, 26));
  const auto other = key_line(plan("--replicas 8 --num-instances 2"));
  EXPECT_THAT(other, HasSubstr("(new)"));
  EXPECT_NE(first.substr(0, 26), other.substr(0, 26));
}

TEST_F(PlanTest, SaysWhereItIsKept) {
  const auto finished = plan("--replicas 2");
  const auto line = finished.out.find("\nstored in ");
  ASSERT_NE(line, std::string::npos) << finished.out << finished.err;
  const auto begin = finished.out.find_first_not_of(' ', line + std::string("\nstored in ").size());
  const auto file = finished.out.substr(begin, finished.out.find('\n', begin) - begin);
  EXPECT_THAT(file, ::testing::StartsWith(path("cache")));
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(PlanTest, NamesTheBlocksThereAreWhereASplitIsWrong) {
  const auto finished = plan("--split layer9.0");
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.err, AllOf(HasSubstr("layer9.0"), HasSubstr("layer2.0"),
                                  HasSubstr("layer3.0"), HasSubstr("try: ")));
}

TEST_F(PlanTest, SplitsWhereItIsTold) {
  const auto json = json_of("--split layer2.0,layer3.1 --gradient-accumulation 8");
  ASSERT_TRUE(json.contains("stages"));
  const auto& stages = json.at("stages");
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[1].at("begins_with"), "layer2.0");
  EXPECT_EQ(stages[2].at("begins_with"), "layer3.1");
  std::int64_t blocks = 0;
  for (const auto& stage : stages) {
    EXPECT_EQ(stage.at("first_block"), blocks);
    blocks += stage.at("num_blocks").get<std::int64_t>();
    EXPECT_GT(stage.at("parameter_bytes"), 0);
  }
}

TEST_F(PlanTest, SplitsByItselfAmongTheDevices) {
  const auto json = json_of("--devices-per-replica 2 --gradient-accumulation 8");
  ASSERT_TRUE(json.contains("stages"));
  EXPECT_EQ(json.at("stages").size(), 2U);
}

TEST_F(PlanTest, WarnsOfTooFewMicroBatches) {
  const auto finished = plan("--devices-per-replica 4 --gradient-accumulation 1");
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_THAT(finished.err, HasSubstr("lockstep: warning: "));
}

TEST_F(PlanTest, WarnsOfWhatWouldNotFitAndShowsItAllTheSame) {
  // Activations of so many samples are larger than any memory: thousands of GiB.
  const auto finished =
      lockstep(words("plan --model resnet20 --dataset synthetic --size 1000000 --image-size 16x16 "
                     "--batch-size 1000000 --cache-path " +
                     path("cache")));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, ContainsRegex("lockstep: warning: .*memory"));
  EXPECT_THAT(finished.out, HasSubstr("cache key "));
}

}  // namespace
}  // namespace lockstep::testing
