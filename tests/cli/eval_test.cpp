#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "lockstep/data/pack/pack_writer.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/weights/weight_file.h"
#include "tests/cli/train_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// 101 pictures fill no batch of 7, and the batches no number of replicas.
constexpr const char* kOddSet =
    "--model convnet --dataset synthetic --size 101 --image-size 16x16x3 --batch-size 7 ";

/// What an evaluation prints, without progress bars and without the mark of instance 0.
std::string result_in(const std::string& out) {
  std::istringstream stream(out);
  std::string result;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("[0]")) line.erase(0, line.starts_with("[0] ") ? 4 : 3);
    if (!result.empty() || line.starts_with("model  ")) result += line + "\n";
  }
  return result;
}

class EvalTest : public ::testing::Test {
 protected:
  using Json = nlohmann::json;

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  Finished eval(const std::string& options) const { return lockstep(words("eval " + options)); }

  /// Runs a command that evaluates, and returns its JSON. `text` becomes what it prints.
  Json json_of(Words command, std::string* text = nullptr) const {
    for (auto& word : words("--json " + path("result.json"))) command.push_back(std::move(word));
    std::filesystem::remove(path("result.json"));
    const auto finished = run(std::move(command));
    if (finished.exit_code != 0) {
      ADD_FAILURE() << "ended with " << finished.exit_code << ":\n" << finished.out << finished.err;
      return Json::object();
    }
    if (text != nullptr) *text = result_in(finished.out);
    return Json::parse(read_file(path("result.json")));
  }
  Json eval_json(const std::string& options, std::string* text = nullptr) const {
    return json_of(lockstep_command(words("eval " + options)), text);
  }

  /// The summary of a training with these options.
  Json train(const std::string& options) const {
    const auto finished =
        lockstep(words("train " + options + " --summary " + path("summary.json")));
    EXPECT_EQ(finished.exit_code, 0) << finished.out << finished.err;
    return finished.exit_code == 0 ? Json::parse(read_file(path("summary.json"))) : Json::object();
  }

  /// A file with the weights of a new network.
  std::string new_weights(const std::string& options) const {
    const auto file = path("w.safetensors");
    const auto finished = lockstep(words("model --export " + file + " " + options));
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return file;
  }

  ScratchFolder folder_;
};

// Every sample once, with the same result on any layout.

void expect_consistent(const nlohmann::json& result, std::int64_t samples) {
  const auto& classes = result.at("classes");
  const auto& matrix = result.at("confusion_matrix");
  std::int64_t all = 0;
  std::int64_t correct = 0;
  for (std::size_t truth = 0; truth < matrix.size(); ++truth) {
    std::int64_t row = 0;
    for (const auto& count : matrix.at(truth)) row += count.get<std::int64_t>();
    EXPECT_EQ(classes.at(truth).at("samples"), row) << truth;
    EXPECT_EQ(classes.at(truth).at("correct"), matrix.at(truth).at(truth)) << truth;
    correct += matrix.at(truth).at(truth).get<std::int64_t>();
    all += row;
  }
  EXPECT_EQ(all, samples);
  EXPECT_EQ(result.at("samples"), samples);
  EXPECT_EQ(result.at("correct"), correct);
  EXPECT_EQ(result.at("accuracy").get<double>(),
            100 * static_cast<double>(correct) / static_cast<double>(samples));
}

TEST_F(EvalTest, TheResultIsTheSameOnAnyNumberOfInstancesAndReplicas) {
  const auto options =
      kOddSet + std::string("--init-from ") + new_weights("--model convnet --image-size 16x16x3");
  const std::string program = LOCKSTEP_BINARY;
  std::string first_text;
  auto first = eval_json(options, &first_text);
  ASSERT_FALSE(HasFailure());
  expect_consistent(first, 101);
  EXPECT_EQ(first.at("run").at("instances"), 1);
  first.erase("run");
  struct Layout {
    std::string command;
    int instances;
    std::optional<int> replicas;
  };
  const Layout layouts[] = {
      {"eval " + options + " --replicas 1", 1, 1},
      {"eval " + options + " --replicas 2", 1, 2},
      {"eval " + options + " --replicas 3 --sync-dataloader", 1, 3},
      {"eval " + options + " --num-instances 2", 2, {}},
      {"eval " + options + " --num-instances 3", 3, {}},
      {"eval " + options + " --num-instances 2 --replicas 3", 2, 3},
      {"run --num-instances 2 " + program + " eval " + options, 2, {}},
      // The launcher would give each replica of the first two threads, and of the second one.
      {"run --num-instances 1 --threads-per-device 2 " + program + " eval " + options, 1, 2},
      {"run --num-instances 3 --num-replicas 5 --threads-per-device 1 " + program + " eval " +
           options,
       3,
       {}},
  };
  for (const auto& [command, instances, replicas] : layouts) {
    std::string text;
    auto result = json_of(lockstep_command(words(command)), &text);
    ASSERT_FALSE(HasFailure()) << command;
    EXPECT_EQ(result.at("run").at("instances"), instances) << command;
    if (replicas) {
      EXPECT_EQ(result.at("run").at("replicas"), *replicas) << command;
    }
    result.erase("run");
    EXPECT_EQ(result, first) << command;
    EXPECT_EQ(text, first_text) << command;
  }
}

TEST_F(EvalTest, AgreesWithTheTestOfATraining) {
  const auto file = path("w.pt");
  const auto options = std::string(kOddSet) + "--replicas 2 --threads-per-device 1 ";
  const auto trained = train(options + "--epochs 2 --export " + file);
  const auto tested = train(options + "--epochs 0 --init-from " + file);
  const auto result = eval_json(options + "--init-from " + file);
  ASSERT_FALSE(HasFailure());
  for (const auto& summary : {trained, tested}) {
    EXPECT_EQ(result.at("accuracy"), summary.at("test_accuracy"));
    EXPECT_EQ(result.at("loss"), summary.at("test_loss"));
    EXPECT_EQ(result.at("weights").at("digest"), summary.at("weights"));
  }
  EXPECT_EQ(result.at("weights").at("init_from"), file);
}

TEST_F(EvalTest, EvaluatesTheSamplesThatATrainingIsTestedWith) {
  const auto file = new_weights("--model convnet --image-size 16x16x3");
  const auto options =
      std::string(kOddSet) + "--replicas 2 --threads-per-device 1 --seed 5 --init-from " + file;
  const auto tested = train(options + " --epochs 0 --limit-test 40");
  std::string text;
  const auto result = eval_json(options + " --limit 40", &text);
  ASSERT_FALSE(HasFailure());
  expect_consistent(result, 40);
  EXPECT_EQ(result.at("accuracy"), tested.at("test_accuracy"));
  EXPECT_EQ(result.at("loss"), tested.at("test_loss"));
  EXPECT_THAT(text, HasSubstr("samples        40\n"));
}

TEST_F(EvalTest, EvaluatesTheSamplesOfTheTrainingOfACheckpoint) {
  const auto options =
      std::string(kOddSet) + "--replicas 2 --threads-per-device 1 --limit-test 40 --seed 5";
  const auto tested = train(options + " --epochs 1 --checkpoint-dir " + path("run"));
  const auto result = eval_json(
      "--size 101 --image-size 16x16x3 --batch-size 7 --limit 40 "
      "--checkpoint " +
      path("run"));
  ASSERT_FALSE(HasFailure());
  expect_consistent(result, 40);
  EXPECT_EQ(result.at("weights").at("digest"), tested.at("weights"));
  EXPECT_EQ(result.at("loss"), tested.at("test_loss"));
}

/// Two ranges that together are the dataset count what the whole dataset counts.
TEST_F(EvalTest, EvaluatesARangeOfSamples) {
  const auto options =
      kOddSet + ("--init-from " + new_weights("--model convnet --image-size 16x16x3"));
  const auto whole = eval_json(options);
  std::string text;
  const auto first = eval_json(options + " --samples 0:33", &text);
  const auto rest = eval_json(options + " --samples 33:101 --num-instances 2");
  ASSERT_FALSE(HasFailure());
  expect_consistent(first, 33);
  expect_consistent(rest, 68);
  EXPECT_EQ(first.at("correct").get<int>() + rest.at("correct").get<int>(),
            whole.at("correct").get<int>());
  EXPECT_EQ(first.at("sample_range"), Json({0, 33}));
  EXPECT_EQ(whole.at("sample_range"), Json());
  EXPECT_THAT(text, HasSubstr("synthetic, test split, samples 0:33\n"));
}

TEST_F(EvalTest, EvaluatesEitherSplit) {
  const auto options =
      kOddSet + std::string("--init-from ") + new_weights("--model convnet --image-size 16x16x3");
  const auto test = eval_json(options);
  const auto train = eval_json(options + " --split train");
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(test.at("split"), "test");
  EXPECT_EQ(train.at("split"), "train");
  EXPECT_NE(test.at("loss"), train.at("loss"));
  expect_consistent(train, 101);
}

// A pack and weights made by hand.

/// Class and prediction of each sample of the pack.
constexpr std::pair<int, int> kMade[] = {{0, 0}, {2, 2}, {0, 0}, {1, 2}, {1, 1}, {0, 1},
                                         {2, 0}, {1, 1}, {0, 0}, {1, 2}, {2, 2}};

/// Brightness of one of the three pixels of a picture. The predicted one is the brightest.
int brightness(int sample, int pixel) {
  return kMade[sample].second == pixel ? 255 - 7 * sample : 11 * sample + 3 * pixel;
}

/// Pictures of three pixels; `labels` are their classes.
std::string write_made_pack(const std::string& file, std::vector<std::int64_t> labels,
                            std::vector<std::string> class_names) {
  std::vector<std::uint8_t> pixels;
  for (int sample = 0; sample < static_cast<int>(labels.size()); ++sample) {
    for (int pixel = 0; pixel < 3; ++pixel) {
      pixels.push_back(static_cast<std::uint8_t>(brightness(sample, pixel)));
    }
  }
  const data::ArrayDataset set(
      {{"image", DataType::U8, {3, 1, 1}}, {"label", DataType::I64, {}}},
      {data::array_of(std::move(pixels)), data::array_of(std::move(labels))},
      std::move(class_names));
  data::write_pack(file, set, {.name = "made-test"});
  return file;
}

/// Weights of an mlp whose first three outputs are the three pixels of a picture.
std::string write_made_weights(const std::string& file, std::int64_t classes) {
  weights::TensorSet set;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, bool is_unit) {
    std::int64_t count = 1;
    for (const auto extent : shape) count *= extent;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; is_unit && i < 3; ++i) {
      values[i * static_cast<std::size_t>(shape[1]) + i] = 1;
    }
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    set.memory.push_back(std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
    set.tensors.push_back({name, weights::ElementType::F32, std::move(shape), *set.memory.back()});
  };
  add("fc1.weight", {256, 3}, true);
  add("fc1.bias", {256}, false);
  add("fc2.weight", {128, 256}, true);
  add("fc2.bias", {128}, false);
  add("fc3.weight", {classes, 128}, true);
  add("fc3.bias", {classes}, false);
  weights::write_weights(file, set);
  return file;
}

std::vector<std::int64_t> made_labels() {
  std::vector<std::int64_t> labels;
  for (const auto& [truth, predicted] : kMade) labels.push_back(truth);
  return labels;
}

/// Mean cross-entropy of the made samples, in double precision.
double made_loss() {
  double sum = 0;
  for (int sample = 0; sample < static_cast<int>(std::size(kMade)); ++sample) {
    double all = 0;
    for (int pixel = 0; pixel < 3; ++pixel) all += std::exp(brightness(sample, pixel) / 255.0);
    sum += std::log(all) - brightness(sample, kMade[sample].first) / 255.0;
  }
  return sum / static_cast<double>(std::size(kMade));
}

TEST_F(EvalTest, CountsWhatAHandMadeNetworkPredictsForAPack) {
  const auto pack = write_made_pack(path("made.pack"), made_labels(), {"zero", "one", "two"});
  const auto file = write_made_weights(path("made.safetensors"), 3);
  for (const auto* more : {"", " --num-instances 3", " --replicas 2"}) {
    std::string text;
    const auto result = eval_json(
        "--model mlp --batch-size 2 --dataset " + pack + " --init-from " + file + more, &text);
    ASSERT_FALSE(HasFailure());
    expect_consistent(result, 11);
    EXPECT_EQ(result.at("confusion_matrix"), Json::parse("[[3, 1, 0], [0, 2, 2], [1, 0, 2]]"));
    EXPECT_NEAR(result.at("loss").get<double>(), made_loss(), 1e-6);
    EXPECT_TRUE(result.at("split").is_null()) << "a pack is one split";
    EXPECT_EQ(result.at("dataset"), pack);
    EXPECT_THAT(text, AllOf(HasSubstr("accuracy       63.64 % (7 correct)\n"),
                            HasSubstr("\n"
                                      "class  name  samples  correct  precision  recall      F1\n"
                                      "    0  zero        4        3     0.7500  0.7500  0.7500\n"
                                      "    1  one         4        2     0.6667  0.5000  0.5714\n"
                                      "    2  two         3        2     0.5000  0.6667  0.5714\n"
                                      "\n"),
                            HasSubstr("class  name  0  1  2\n"
                                      "    0  zero  3  1  0\n"
                                      "    1  one   0  2  2\n"
                                      "    2  two   1  0  2\n")));
  }
}

TEST_F(EvalTest, WritesTheSameJsonKeysForEveryEvaluation) {
  const auto pack = write_made_pack(path("made.pack"), made_labels(), {});
  const auto file = write_made_weights(path("made.safetensors"), 10);
  const auto result =
      eval_json("--model mlp --dataset " + pack + " --init-from " + file + " --batch-size 4");
  ASSERT_FALSE(HasFailure());
  std::vector<std::string> keys;
  for (const auto& [key, value] : result.items()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre("accuracy", "batch_size", "classes", "confusion_matrix",
                                           "confusions", "correct", "dataset", "loss", "model",
                                           "precision", "run", "sample_range", "samples", "split",
                                           "threads_per_device", "weights"));
  EXPECT_EQ(result.at("batch_size"), 4);
  EXPECT_EQ(result.at("precision"), "32.32");
  EXPECT_EQ(result.at("threads_per_device"), 1);
  EXPECT_EQ(result.at("classes").size(), 10U) << "those of the network: the pack names none";
  EXPECT_TRUE(result.at("classes").at(0).at("name").is_null());
  EXPECT_TRUE(result.at("classes").at(9).at("recall").is_null()) << "it has no sample";
}

TEST_F(EvalTest, APackGivesTheResultOfItsSet) {
  const auto packed = lockstep(words(
      "data pack --dataset synthetic --size 50 --image-size 16x16x3 --output " + folder_.path()));
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  const auto model = "--model convnet --batch-size 8 --init-from " +
                     new_weights("--model convnet --image-size 16x16x3");
  const auto set = eval_json(model + " --dataset synthetic --size 50 --image-size 16x16x3");
  const auto pack = eval_json(model + " --dataset " + path("synthetic-test.pack"));
  ASSERT_FALSE(HasFailure());
  for (const auto* key : {"loss", "classes", "confusion_matrix"}) {
    EXPECT_EQ(set.at(key), pack.at(key)) << key;
  }
}

TEST_F(EvalTest, ShowsTheMostFrequentConfusionsOfManyClasses) {
  const auto options = "--classes 25 " + std::string(kOddSet) + "--init-from " +
                       new_weights("--model convnet --classes 25 --image-size 16x16x3");
  std::string text;
  const auto result = eval_json(options, &text);
  ASSERT_FALSE(HasFailure());
  EXPECT_THAT(text,
              AllOf(HasSubstr("most frequent of"), HasSubstr("--json FILE writes all confusions"),
                    HasSubstr("\n   24  class 24"), Not(HasSubstr("confusion matrix: "))));
  EXPECT_EQ(result.at("confusion_matrix").size(), 25U);
  expect_consistent(result, 101);
}

// Checkpoints.

constexpr const char* kTrained =
    "--model mlp --dataset synthetic --data-seed 3 --classes 4 --size 60 --image-size 8x8x3 "
    "--batch-size 4 --epochs 2 --replicas 2 --threads-per-device 1 ";

TEST_F(EvalTest, EvaluatesTheNewestCheckpointThatIsWhole) {
  const auto trained = train(kTrained + ("--checkpoint-dir " + path("c")));
  ASSERT_FALSE(HasFailure());
  // Model, dataset, classes and seed are those of the checkpoint.
  const auto options = "--size 60 --image-size 8x8x3 --batch-size 4 --checkpoint ";
  std::string text;
  const auto newest = eval_json(options + path("c"), &text);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(newest.at("model"), "mlp");
  EXPECT_EQ(newest.at("accuracy"), trained.at("test_accuracy"));
  EXPECT_EQ(newest.at("loss"), trained.at("test_loss"));
  EXPECT_EQ(newest.at("weights").at("digest"), trained.at("weights"));
  const auto checkpoint = newest.at("weights").at("checkpoint");
  EXPECT_EQ(checkpoint.at("step"), trained.at("optimizer_steps"));
  EXPECT_EQ(checkpoint.at("average"), false);
  const auto folder = checkpoint.at("path").get<std::string>();
  EXPECT_THAT(text, HasSubstr("weights        " + folder + ", after step 14, digest "));

  const auto named = eval_json(options + folder + " --num-instances 2");
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(named.at("weights"), newest.at("weights"));
  EXPECT_EQ(named.at("loss"), newest.at("loss"));

  std::filesystem::remove(folder + "/weights.safetensors");
  const auto older = eval(options + path("c"));
  EXPECT_EQ(older.exit_code, 0) << older.err;
  EXPECT_THAT(older.err, HasSubstr("lockstep: note: " + folder +
                                   " is damaged, so an older checkpoint is used: "));
  EXPECT_THAT(older.out, HasSubstr(", after step 7, digest "));
}

TEST_F(EvalTest, EvaluatesTheAverageOfTheWeightsIfTheCheckpointHasOne) {
  const auto exported = path("average.safetensors");
  const auto trained =
      train(kTrained + ("--ema-decay 0.9 --export " + exported + " --checkpoint-dir " + path("c")));
  ASSERT_FALSE(HasFailure());
  const auto options = "--size 60 --image-size 8x8x3 --batch-size 4 --checkpoint " + path("c");
  const auto average = eval_json(options);
  const auto raw = eval_json(options + " --weights trained");
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(average.at("weights").at("checkpoint").at("average"), true);
  EXPECT_EQ(average.at("weights").at("digest"), weights::read_weights(exported).digest());
  EXPECT_EQ(average.at("loss"), trained.at("test_loss"));
  EXPECT_EQ(raw.at("weights").at("digest"), trained.at("weights"));
  EXPECT_NE(raw.at("loss"), average.at("loss"));
}

// Errors.

struct BadEvaluation {
  std::string options;
  int exit_code;
  std::string message;
};

TEST_F(EvalTest, SaysWhatIsWrong) {
  const auto file = new_weights("--model convnet --image-size 16x16x3");
  const auto made = write_made_weights(path("made.safetensors"), 10);
  const auto unknown = write_made_pack(path("unknown.pack"), {0, 12}, {});
  std::filesystem::create_directory(path("empty"));
  const auto odd = kOddSet + ("--init-from " + file);
  const BadEvaluation all[] = {
      {kOddSet, 2,
       "lockstep: eval: expected weights, found neither --init-from nor --checkpoint\n"
       "  try: --init-from FILE, or --checkpoint DIR\n"},
      {odd + " --split validation", 2,
       "eval: --split: expected one of test, train, found 'validation'"},
      {odd + " --limit 102", 2,
       "eval: --limit: expected 1 to 101 samples, found 102\n  try: --limit 101\n"},
      {odd + " --limit 0", 2, "eval: --limit: expected a whole number from 1 on, found '0'"},
      {odd + " --classes 7", 3, "w.safetensors: expected the "},
      {"--model mlp --dataset " + unknown + " --init-from " + made, 3,
       "evaluate: expected classes of 0 to 9 in the field 'label', because the model has 10 "
       "outputs, found 12"},
      {kOddSet + ("--init-from " + path("none.pt")), 5, "none.pt"},
      {kOddSet + ("--checkpoint " + path("none")), 2,
       "eval: --checkpoint: expected a checkpoint or a folder of checkpoints, found nothing at "},
      {kOddSet + ("--checkpoint " + path("empty")), 2,
       "eval: --checkpoint: expected a checkpoint in "},
      {"--dataset " + path("none.pack") + " --init-from " + file, 3,
       "none.pack: expected a pack, found no file"},
      {odd + " --samples 90:102", 2,
       "eval: --samples: expected a range within 0:101, found 90:102\n  try: --samples 0:101\n"},
      {odd + " --json " + folder_.path(), 5, ": expected a file, found a folder"},
      {odd + " --json /no/such/r.json", 5,
       "eval: --json /no/such/r.json: expected '/no/such' to be a folder, found none"},
  };
  for (const auto& [options, code, message] : all) {
    const auto result = eval(options);
    EXPECT_EQ(result.exit_code, code) << options << "\n" << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(message), Not(HasSubstr("frame #"))));
    EXPECT_EQ(result_in(result.out), "");
  }
}

TEST_F(EvalTest, SaysWhatIsWrongInAJobToo) {
  const auto made = write_made_weights(path("made.safetensors"), 10);
  // Only one instance evaluates the sample with the unknown class.
  const auto unknown = write_made_pack(path("unknown.pack"), {0, 1, 2, 12}, {});
  const auto result = eval("--model mlp --batch-size 1 --num-instances 2 --dataset " + unknown +
                           " --init-from " + made);
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("because the model has 10 outputs, found 12"));
}

TEST_F(EvalTest, SaysThatACheckpointHasNoAverage) {
  train(kTrained + ("--checkpoint-dir " + path("c")));
  ASSERT_FALSE(HasFailure());
  const auto result =
      eval("--size 60 --image-size 8x8x3 --weights average --checkpoint " + path("c"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("eval: --weights average: expected a checkpoint with an "
                                    "average of the weights, found none in "));
}

TEST_F(EvalTest, AsksHowAPackOfAKnownSetIsNormalized) {
  const auto made = write_made_weights(path("made.safetensors"), 10);
  const data::ArrayDataset set({{"image", DataType::U8, {3, 1, 1}}, {"label", DataType::I64, {}}},
                               {data::array_of(std::vector<std::uint8_t>{10, 20, 30}),
                                data::array_of(std::vector<std::int64_t>{1})});
  data::write_pack(path("a.pack"), set, {.name = "fashion-mnist-test"});
  const auto options = "--model mlp --dataset " + path("a.pack") + " --init-from " + made;
  const auto asked = eval(options);
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  EXPECT_EQ(asked.err, "lockstep: note: " + path("a.pack") +
                           " contains fashion-mnist. If the weights were trained with --dataset "
                           "fashion-mnist, pass --normalize-as fashion-mnist\n");
  const auto told = eval(options + " --normalize-as fashion-mnist");
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_EQ(told.err, "");
  EXPECT_NE(result_in(told.out), result_in(asked.out));
}

TEST(EvalCommandTest, ShowsItsOptionsInGroups) {
  const auto help = lockstep({"eval", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const auto* text :
       {"Usage: lockstep eval [options]\n", "\nWeights and data:\n", "\nComputation:\n",
        "\nLoading:\n", "\nPlacement:\n", "\nOutput:\n", "--checkpoint DIR", "--split NAME=test ",
        "--json FILE", "Example: lockstep eval --checkpoint"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
  EXPECT_THAT(help.out, AllOf(Not(HasSubstr("--epochs")), Not(HasSubstr("--optimizer")),
                              Not(HasSubstr("--checkpoint-dir DIR"))));
}

}  // namespace
}  // namespace lockstep::testing
