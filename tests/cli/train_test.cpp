#include <cmath>
#include <cstring>
#include <sstream>

#include "lockstep/weights/weight_file.h"
#include "tests/cli/train_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

#define NEEDS_FASHION_MNIST() \
  if (!has_fashion_mnist()) GTEST_SKIP() << "dataset-fashion-mnist is not installed"

/// Small and quick, with ends of the sets that fill no batch.
constexpr const char* kSmall =
    "--dataset synthetic --size 300 --image-size 16x16x3 --limit-test 50 --batch-size 4";

std::string small(const std::string& more) {
  return std::string(kSmall) + " " + more;
}

Finished train(const std::string& options, SubprocessOptions how = {}) {
  return lockstep(words("train " + options), std::move(how));
}

/// What a run wrote to stdout, without the lines of bars that were not full yet: how many there are
/// depends on how fast it ran.
std::string without_unfinished_bars(const std::string& out) {
  std::istringstream stream(out);
  std::string kept;
  const auto is_unfinished =
      ::testing::Matches(MatchesRegex(R"((\[[0-9]+\] )?\[[A-Z][a-z]+.*\]: +[0-9]{1,2}%\|.*)"));
  for (std::string line; std::getline(stream, line);) {
    if (!is_unfinished(line)) kept += line + "\n";
  }
  return kept;
}

class TrainTest : public TrainRunsTest {};

// How it looks.

/// The lines of a run of one epoch, each behind `tag`.
std::string shape_of_output(const std::string& tag, const std::string& iterations) {
  const std::string full = ": 100%\\|(█){10}\\| ";
  const std::string number = "[0-9]+(\\.[0-9]+)?";
  const std::string time = "[0-9]+:[0-9][0-9]";
  return tag + "\\[Prepare\\]" + full + "5/5 \\[" + time + ", plan (made|cached)\\]\n" +  //
         tag + "\\[Epoch 01\\]" + full + iterations + "/" + iterations + " \\[" + time +
         "<00:00, +" + number + "(it/s|s/it), loss=" + number + ", acc=" + number + "\\]\n" +  //
         tag + "\\[Epoch 01\\] loss: [0-9]+\\.[0-9]{3}, acc: [0-9]+\\.[0-9]\n" +               //
         tag + "\\[Test  01\\] loss: [0-9]+\\.[0-9]{3}, acc: [0-9]+\\.[0-9]\n" +               //
         tag + "test accuracy  [0-9]+\\.[0-9]{2} %\n" +                                        //
         tag + "test loss      [0-9]+\\.[0-9]{4}\n" +                                          //
         tag + "samples/s      [0-9]+\\.[0-9]\n" +                                             //
         tag + "time           " + number + " % waiting for data, " + number + " % compute, " +
         number + " % reduction, " + number + " % idle\n" +         //
         tag + "bottleneck     [a-z]+(-bound)?: [^\n]+\n" +         //
         tag + "memory         weights [^\n]+ for an instance\n" +  //
         tag + "first step     after [0-9]+\\.[0-9]{2} s\n" + tag +
         "weights: [0-9a-f]{16}  \\(R=8 T=[0-9]+\\)\n";
}

TEST_F(TrainTest, WritesPlainLinesWhereThereIsNoTerminal) {
  const auto alone = train(small("--model mlp --epochs 1 --replicas 8"));
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(alone.err, "");
  EXPECT_THAT(without_unfinished_bars(alone.out), MatchesRegex(shape_of_output("", "9")));
}

TEST_F(TrainTest, ShowsOneBarForTheWholeJob) {
  const auto job = train(small("--model mlp --epochs 1 --replicas 8 --num-instances 3"));
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(job.err, "");
  EXPECT_THAT(without_unfinished_bars(job.out), MatchesRegex(shape_of_output("\\[0\\] ", "9")));
}

TEST_F(TrainTest, DrawsOverItsBarsOnATerminal) {
  const auto shown =
      train(small("--model mlp --epochs 1 --replicas 2 --num-instances 2"), {.terminal = true});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.out, ContainsRegex("\r(\x1B\\[K)?\\[0\\] \\[Epoch 01\\]:   0%"));
  EXPECT_THAT(shown.out, ContainsRegex("\r(\x1B\\[K)?\\[0\\] \\[Epoch 01\\]: 100%"));
  EXPECT_THAT(shown.out, ContainsRegex("weights: [0-9a-f]{16}  \\(R=2 T="));
}

// What it says of itself in the end.

TEST_F(TrainTest, SummarizesWhatItDid) {
  const auto summary = record_train(
      "run", small("--model convnet --epochs 2 --replicas 3 --num-instances 2 --seed 7 "
                   "--gradient-accumulation 2 --device-iterations 3"));
  ASSERT_FALSE(HasFailure());
  // 300 samples are 4 iterations of 4 x 2 x 3 x 3.
  EXPECT_EQ(summary.at("optimizer_steps"), 2 * 4 * 3);
  EXPECT_EQ(summary.at("samples"), 2 * 4 * 72);
  EXPECT_EQ(summary.at("model"), "convnet");
  EXPECT_EQ(summary.at("dataset"), "synthetic");
  EXPECT_EQ(summary.at("replicas"), 3);
  EXPECT_EQ(summary.at("instances"), 2);
  EXPECT_EQ(summary.at("batch_size"), 4);
  EXPECT_EQ(summary.at("gradient_accumulation"), 2);
  EXPECT_EQ(summary.at("device_iterations"), 3);
  EXPECT_EQ(summary.at("epochs"), 2);
  EXPECT_EQ(summary.at("seed"), 7);
  EXPECT_EQ(summary.at("precision"), "32.32");
  EXPECT_GT(summary.at("train_loss").get<double>(), 0);
  EXPECT_EQ(summary.at("test_metrics").at("acc"), summary.at("test_accuracy"));
  // Of 50 samples, a whole number of which is right.
  const auto right = summary.at("test_accuracy").get<double>() / 100 * 50;
  EXPECT_NEAR(right, std::round(right), 1e-9);
}

TEST_F(TrainTest, SaysWhereTheTimeWent) {
  const auto summary =
      record_train("run", small("--model convnet --epochs 2 --replicas 3 --num-instances 2"));
  ASSERT_FALSE(HasFailure());
  double shares = 0;
  for (const auto& [name, share] : summary.at("time").items()) {
    EXPECT_GE(share.get<double>(), 0) << name;
    shares += share.get<double>();
  }
  EXPECT_EQ(summary.at("time").size(), 4U);
  EXPECT_NEAR(shares, 1, 0.02);
  const auto seconds = summary.at("train_seconds").get<double>();
  EXPECT_NEAR(summary.at("samples_per_second").get<double>() * seconds,
              summary.at("samples").get<double>(), 1e-3);
  EXPECT_GT(summary.at("time_to_first_step_s").get<double>(), 0);
  EXPECT_LT(summary.at("time_to_first_step_s").get<double>(), 60);
}

TEST_F(TrainTest, ExportsTheWeightsThatItSummarizes) {
  const auto file = path("w.safetensors");
  const auto summary = record_train(
      "run", small("--model convnet --epochs 1 --replicas 3 --num-instances 2 --export " + file));
  ASSERT_FALSE(HasFailure());
  const auto digest = summary.at("weights").get<std::string>();
  EXPECT_EQ(weights::read_weights(file).digest(), digest);
  const auto model =
      lockstep(words("model --model convnet --image-size 16x16x3 --init-from " + file));
  EXPECT_THAT(model.out, HasSubstr("weights: " + digest)) << model.err;
}

TEST_F(TrainTest, GoesOnFromExportedWeights) {
  const auto file = path("w.pt");
  const auto before =
      record_train("before", small("--model mlp --epochs 2 --replicas 2 --export " + file));
  // A rate at which nothing moves: what is tested are the weights of the file.
  const auto after = record_train(
      "after", small("--model mlp --epochs 1 --replicas 2 --lr 1e-30 --init-from " + file));
  ASSERT_FALSE(HasFailure());
  for (const auto* key : {"weights", "test_loss", "test_accuracy"}) {
    EXPECT_EQ(before.at(key), after.at(key)) << key;
  }
}

TEST_F(TrainTest, OnlyTestsForNoEpochs) {
  const auto file = path("w.pt");
  const auto before =
      record_train("before", small("--model mlp --epochs 1 --replicas 2 --export " + file));
  const auto after =
      record_train("after", small("--model mlp --epochs 0 --replicas 3 --init-from " + file));
  ASSERT_FALSE(HasFailure());
  for (const auto* key : {"weights", "test_loss", "test_accuracy"}) {
    EXPECT_EQ(before.at(key), after.at(key)) << key;
  }
  EXPECT_EQ(after.at("optimizer_steps"), 0);
}

// Words of the tutorial.

constexpr const char* kTutorial =
    "--batch-size 8 --gradient-accumulation 8 --device-iterations 4 --eight-bit-io "
    "--async-dataloader --epochs 1 --model mlp --limit-test 333";

TEST_F(TrainTest, FollowsTheCommandOfTheTutorial) {
  NEEDS_FASHION_MNIST();
  // An iteration takes 8 x 8 x 4 x 8 = 2048.
  const auto result = train(std::string(kTutorial) + " --replicas 8 --limit-train 4500");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(without_unfinished_bars(result.out), MatchesRegex(shape_of_output("", "2")));
}

TEST_F(TrainTest, FollowsTheCommandOfTheTutorialUnderTheLauncher) {
  NEEDS_FASHION_MNIST();
  const auto result =
      lockstep(words(std::string("run --num-replicas 8 --num-instances 4 --ipus-per-replica 2 ") +
                     LOCKSTEP_BINARY + " train " + kTutorial + " --limit-train 4500"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(without_unfinished_bars(result.out), MatchesRegex(shape_of_output("\\[0\\] ", "2")));
}

TEST_F(TrainTest, GivesTheSameBitsFromBytesAsFromNumbers) {
  NEEDS_FASHION_MNIST();
  const std::string options =
      "--model convnet --replicas 3 --batch-size 16 --epochs 1 --limit-train 200 --limit-test 50 ";
  record_train("numbers", options);
  record_train("bytes", options + "--eight-bit-io");
  record_train("bytes-2", options + "--eight-bit-io --num-instances 2");
  expect_same("numbers", "bytes");
  expect_same("numbers", "bytes-2");
}

// Sixteen bits.

struct Sixteen {
  const char* half;
  const char* precision;
  const char* applies_to;
};

TEST_F(TrainTest, RoundsToSixteenBitsAlikeOnEveryLayout) {
  const auto options = small("--model convnet --epochs 1 --replicas 8 --threads-per-device 1 ");
  const auto full = printed_digest(train(options));
  const Sixteen all[] = {{"bf16", "16.16", "bf16 applies to the input and to gradients"},
                         {"fp16", "16.16", "fp16 applies to the input and to gradients"},
                         {"fp16", "16.32", "fp16 applies to the input"}};
  for (const auto& [half, precision, applies_to] : all) {
    const auto rounded = options + "--precision " + precision + " --half " + half;
    const auto one = train(rounded);
    const auto three = train(rounded + " --num-instances 3");
    EXPECT_EQ(one.exit_code, 0);
    const auto note = std::string("lockstep: note: this CPU computes in 32 bits: ") + applies_to;
    EXPECT_EQ(one.err, note + "\n");
    EXPECT_EQ(three.err, "[0] " + note + "\n");
    EXPECT_EQ(printed_digest(one), printed_digest(three)) << half;
    EXPECT_NE(printed_digest(one), full) << half;
  }
}

// Testing.

TEST_F(TrainTest, TestsEverySampleOnceOnEveryLayout) {
  // 50 samples are 13 batches, the last of 2: 3 instances have 5, 4 and 4.
  const auto options = small("--model convnet --epochs 2 --replicas 3 --threads-per-device 1");
  const auto one = record_train("one", options);
  const auto three = record_train("three", options + " --num-instances 3");
  const auto rare = record_train("rare", options + " --num-instances 2 --eval-every 0");
  ASSERT_FALSE(HasFailure());
  for (const auto* key : {"test_loss", "test_accuracy", "weights"}) {
    EXPECT_EQ(one.at(key), three.at(key)) << key;
    EXPECT_EQ(one.at(key), rare.at(key)) << key;
  }
}

// Differences that are planted.

TEST_F(TrainTest, LetsDiffNameTheFirstStepThatDiffers) {
  // 4 steps in an epoch; the rate falls with the second one, a little less in one of the runs.
  const auto options = small(
      "--model mlp --epochs 2 --replicas 8 --gradient-accumulation 2 --schedule step "
      "--step-epochs 1 --step-factor ");
  record_train("a", options + "0.1");
  record_train("b", options + "0.1001");
  ASSERT_FALSE(HasFailure());
  const auto found = diff("a", "b");
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_THAT(found.out,
              AllOf(ContainsRegex("the runs differ first at step 5: tensor 'fc1.bias' "),
                    HasSubstr("the last step at which they agree: 4\n"), Not(HasSubstr("loss"))));
}

/// The same weights, but for the first number of one tensor.
void change_one_number(const std::string& from, const std::string& tensor, const std::string& to) {
  const auto file = weights::read_weights(from);
  auto set = file.set();
  std::vector<std::byte> bytes;
  for (auto& each : set.tensors) {
    if (each.name != tensor) continue;
    bytes.assign(each.bytes.begin(), each.bytes.end());
    each.bytes = bytes;
  }
  ASSERT_GE(bytes.size(), sizeof(float)) << tensor;
  float number = 0;
  std::memcpy(&number, bytes.data(), sizeof(number));
  number += 0.125F;
  std::memcpy(bytes.data(), &number, sizeof(number));
  weights::write_weights(to, set);
}

TEST_F(TrainTest, LetsDiffNameTheOneTensorThatDiffers) {
  ASSERT_EQ(
      lockstep(words("model --model mlp --image-size 16x16x3 --export " + path("a.pt"))).exit_code,
      0);
  change_one_number(path("a.pt"), "fc2.bias", path("b.pt"));
  // A rate at which nothing else moves.
  const auto options = small("--model mlp --epochs 1 --replicas 8 --lr 1e-30 --init-from ");
  record_train("a", options + path("a.pt"));
  record_train("b", options + path("b.pt") + " --num-instances 2");
  ASSERT_FALSE(HasFailure());
  const auto found = diff("a", "b");
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_THAT(found.out,
              ContainsRegex("the runs differ first at step 1: tensor 'fc2.bias' \\(digest "
                            "[0-9a-f]{16} and [0-9a-f]{16}\\)\n"));
}

// How it fails.

TEST_F(TrainTest, EndsWithAnExitCodeOfItsOwnWhereTrainingDiverged) {
  const auto options = small("--model convnet --epochs 1 --replicas 3 --lr 1e30");
  const auto message =
      "train: the loss of replica [0-2] is -?(nan|inf) at step [0-9]+; the last finite losses were "
      "[0-9., e+]+\n";
  for (const auto* instances : {"1", "2"}) {
    const auto result = train(options + " --num-instances " + instances);
    EXPECT_EQ(result.exit_code, 8);
    EXPECT_THAT(result.err, ContainsRegex(message));
    EXPECT_THAT(result.err, HasSubstr("try: a lower learning rate"));
    EXPECT_THAT(result.out, Not(HasSubstr("weights: ")));
  }
}

struct Bad {
  std::string options;
  int exit_code;
  const char* message;
  const char* hint;
};

TEST_F(TrainTest, SaysWhatIsWrong) {
  const Bad all[] = {
      {"--dataset cifar10 --data-dir " + path("none"), 3, "cifar10: expected one of",
       "or use --dataset synthetic"},
      {"--dataset " + path("none.pack"), 3, "none.pack: expected a pack, found no file",
       "try: make one: lockstep data pack"},
      {"--dataset synthetic --size 300 --replicas 8 --batch-size 64", 2,
       "data: one iteration takes 512 samples (batch_size 64 x gradient_accumulation 1 x "
       "device_iterations 1 x replicas 8), and the set has 300",
       "try: lower one of the four, or take a larger set"},
      {"--model resnet21", 2, "train: --model: expected one of", "try: --model resnet20"},
      {small("--init-from " + path("none.pt")), 5, "none.pt", ""},
  };
  for (const auto& [options, code, message, hint] : all) {
    const auto result = train(options);
    EXPECT_EQ(result.exit_code, code) << options << "\n" << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(message), HasSubstr(hint), Not(HasSubstr("frame #"))));
  }
}

TEST_F(TrainTest, SaysWhatIsWrongInAJobToo) {
  const auto result = train("--dataset cifar10 --num-instances 2 --data-dir " + path("none"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("cifar10: expected one of"),
                                HasSubstr("or use --dataset synthetic")));
}

}  // namespace
}  // namespace lockstep::testing
