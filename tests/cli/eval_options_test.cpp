#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/checkpoint/checkpoint_folder.h"
#include "lockstep/cli/train_arguments.h"
#include "lockstep/cli/train_start.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using train::CheckpointWeights;

using EvalWords = std::vector<std::string>;

cli::TrainArguments eval_of(const EvalWords& words, const topology::Identity& identity = {}) {
  return cli::parse_train_arguments(words, identity, cli::TrainCommand::Eval).value();
}

void expect_eval_refused(const EvalWords& words, const std::string& text,
                         const topology::Identity& identity = {}) {
  expect_error([&] { eval_of(words, identity); }, ErrorKind::Options, text);
}

/// Four instances with two replicas each.
topology::Identity one_of_four() {
  topology::Identity identity;
  identity.launched_by = topology::LaunchedBy::Lockstep;
  identity.num_instances = 4;
  identity.num_replicas = 8;
  identity.local_replicas = {0, 2};
  identity.threads_per_device = 3;
  return identity;
}

topology::Machine machine_with(int cores) {
  topology::Machine machine;
  for (int i = 0; i < cores; ++i) machine.cores.push_back({.numa_node = 0, .cpus = {i}});
  return machine;
}

TEST(EvalOptionsTest, ReadsWhatIsEvaluated) {
  const auto arguments =
      eval_of({"--init-from", "w.pt",   "--model",        "convnet", "--dataset",    "cifar10",
               "--split",     "train",  "--limit",        "100",     "--batch-size", "8",
               "--seed",      "7",      "--normalize-as", "mnist",   "--image-size", "16x16",
               "--json",      "r.json", "--replicas",     "3",       "--precision",  "16.32"});
  EXPECT_EQ(arguments.command, cli::TrainCommand::Eval);
  const auto& request = arguments.request;
  EXPECT_EQ(request.command, "eval");
  EXPECT_EQ(request.model.init_from, "w.pt");
  EXPECT_EQ(request.model.model, "convnet");
  EXPECT_EQ(request.dataset, "cifar10");
  EXPECT_EQ(request.limit_test, 100);
  EXPECT_EQ(request.batch_size, 8);
  EXPECT_EQ(request.seed, 7U);
  EXPECT_EQ(request.normalize_as, "mnist");
  EXPECT_EQ(request.image_size, (data::ImageSize{16, 16}));
  EXPECT_EQ(request.replicas, 3);
  EXPECT_EQ(request.precision, Precision::P16_32);
  EXPECT_EQ(arguments.evaluation.split, data::Split::Train);
  EXPECT_EQ(arguments.json_file, "r.json");
}

TEST(EvalOptionsTest, EvaluatesTheTestSplitByDefault) {
  const auto arguments = eval_of({"--init-from", "w.pt"});
  EXPECT_EQ(arguments.evaluation.split, data::Split::Test);
  EXPECT_EQ(arguments.evaluation.weights, CheckpointWeights::Auto);
  EXPECT_EQ(arguments.request.limit_test, std::nullopt);
  EXPECT_EQ(arguments.evaluation.samples, std::nullopt);
  EXPECT_EQ(arguments.request.batch_size, 64);
  EXPECT_EQ(arguments.request.replicas, std::nullopt);
  EXPECT_EQ(arguments.request.threads_per_device, std::nullopt);
}

TEST(EvalOptionsTest, ReadsARangeOfSamples) {
  EXPECT_EQ(eval_of({"--init-from", "w.pt", "--samples", "20:50"}).evaluation.samples,
            (data::IndexRange{20, 50}));
  for (const char* text : {"", "20", "50:20", "5:5", "-1:5", "1:2:3", "a:b", ":5"}) {
    expect_eval_refused({"--init-from", "w.pt", "--samples", text},
                        std::string("eval: --samples: expected FIRST:END with 0 <= FIRST < END, "
                                    "found '") +
                            text + "'");
  }
  expect_eval_refused({"--init-from", "w.pt", "--samples", "0:5", "--limit", "3"},
                      "eval: expected --samples or --limit, found both\nleave one of them out");
}

TEST(EvalOptionsTest, ATorchScriptFileHasWeightsOfItsOwn) {
  EXPECT_EQ(eval_of({"--model", "net.pt"}).request.model.model, "net.pt");
}

TEST(EvalOptionsTest, RefusesWhatCannotBeMeant) {
  expect_eval_refused({},
                      "eval: expected weights, found neither --init-from nor --checkpoint\n"
                      "--init-from FILE, or --checkpoint DIR");
  expect_eval_refused({"--init-from", "w.pt", "--checkpoint", "."},
                      "eval: expected --init-from or --checkpoint, found both\n"
                      "leave one of them out");
  expect_eval_refused({"--init-from", "w.pt", "--split", "tets"},
                      "eval: --split: expected one of test, train, found 'tets'\n--split test");
  expect_eval_refused({"--init-from", "w.pt", "--limit", "0"},
                      "eval: --limit: expected a whole number from 1 on, found '0'");
  expect_eval_refused({"--init-from", "w.pt", "--dataset", "a.pack", "--split", "train"},
                      "eval: --split works with a dataset that is not a .pack, but --dataset is "
                      "a.pack");
  expect_eval_refused({"--init-from", "w.pt", "--weights", "trained"},
                      "eval: --weights works with --checkpoint, but none is given\n"
                      "give --checkpoint, or leave --weights out");
  expect_eval_refused({"--checkpoint", ".", "--weights", "best"},
                      "eval: --weights: expected one of auto, trained, average, found 'best'");
  expect_eval_refused({"--init-from", "w.pt", "--normalize-as", "cifar11"},
                      "eval: --normalize-as: expected one of cifar10, ");
  expect_eval_refused({"--init-from", "w.pt", "--size", "10"},
                      "eval: --size works with --dataset synthetic, but --dataset is "
                      "fashion-mnist");
  expect_eval_refused({"--init-from", "w.pt", "--threads-per-device", "0"},
                      "eval: --threads-per-device is 0, expected at least 1");
  expect_eval_refused({"--init-from", "w.pt", "--num-instances", "3", "--replicas", "2"},
                      "eval: 3 instances need a replica each, but --replicas is 2\n"
                      "raise --replicas to 3 or lower --num-instances to 2");
  expect_eval_refused({"--init-from", "w.pt", "--epochs", "1"}, "eval: unknown option '--epochs'");
  expect_eval_refused({"--checkpoint", "/no/such"},
                      "eval: --checkpoint: expected a checkpoint or a folder of checkpoints, found "
                      "nothing at /no/such\n"
                      "name the folder that was --checkpoint-dir of the training");
}

TEST(EvalOptionsTest, DividesCoresByItselfUnderALauncher) {
  const auto arguments = eval_of(
      {"--init-from", "w.pt", "--replicas", "6", "--threads-per-device", "2"}, one_of_four());
  EXPECT_EQ(arguments.request.replicas, 6);
  EXPECT_EQ(arguments.request.threads_per_device, 2);
  expect_eval_refused({"--init-from", "w.pt", "--num-instances", "2"},
                      "eval: 4 instances are set by the launcher, found --num-instances\n"
                      "pass --num-instances to it instead",
                      one_of_four());
  expect_eval_refused({"--init-from", "w.pt", "--bind", "none"},
                      "eval: a launcher has started this process, found --bind", one_of_four());
}

TEST(EvalStartTest, ComputesEachBatchWithOneThreadUnlessMoreAreAskedFor) {
  const auto one = cli::start_alone(eval_of({"--init-from", "w.pt"}), machine_with(8), {});
  EXPECT_THAT(one.arguments,
              ElementsAre("eval", "--init-from", "w.pt", "--threads-per-device", "1"));
  EXPECT_EQ(one.environment.get("OMP_NUM_THREADS"), "1");
  const auto two = cli::start_alone(eval_of({"--init-from", "w.pt", "--threads-per-device", "2"}),
                                    machine_with(8), {});
  EXPECT_THAT(two.arguments,
              ElementsAre("eval", "--init-from", "w.pt", "--threads-per-device", "2"));
}

TEST(EvalStartTest, TheLauncherDividesNothingButInstances) {
  const auto job =
      cli::train_job(eval_of({"--init-from", "w.pt", "--replicas", "6", "--threads-per-device", "2",
                              "--num-instances", "3", "--bind", "none", "--json", "r.json"}),
                     "lockstep-train");
  EXPECT_THAT(job.run.command,
              ElementsAre("lockstep-train", "eval", "--init-from", "w.pt", "--replicas", "6",
                          "--threads-per-device", "2", "--json", "r.json"));
  EXPECT_EQ(job.run.num_instances, 3);
  EXPECT_EQ(job.run.num_replicas, std::nullopt);
  EXPECT_EQ(job.run.threads_per_device, std::nullopt);
  EXPECT_EQ(job.run.bind, topology::BindPolicy::None);
}

TEST(EvalStartTest, TheTrainerRefusesOptionsOfTheLauncher) {
  const auto arguments = eval_of({"--init-from", "w.pt", "--num-instances", "2"});
  EXPECT_TRUE(cli::takes_launcher(arguments));
  expect_error([&] { cli::check_trainer_can_follow(arguments); }, ErrorKind::Options,
               "--num-instances has to be followed before this program starts\n"
               "lockstep eval --num-instances");
}

/// A folder of checkpoints whose manifest has these options.
class EvalCheckpointTest : public ::testing::Test {
 protected:
  void write(const std::vector<std::pair<std::string, std::string>>& options) const {
    checkpoint::Content content;
    content.manifest.position.step = 3;
    content.manifest.options = options;
    checkpoint::CheckpointFolder(folder_.path(), {}).write(content);
  }

  EvalWords with_checkpoint(EvalWords words) const {
    words.insert(words.begin(), {"--checkpoint", folder_.path()});
    return words;
  }

  ScratchFolder folder_;
};

TEST_F(EvalCheckpointTest, TakesModelAndDataFromTheCheckpoint) {
  write({{"model", "resnet56"},
         {"dataset", "cifar10"},
         {"image-size", "48x40"},
         {"seed", "5"},
         {"precision", "16.16"},
         {"half", "fp16"},
         {"eight-bit-io", "yes"}});
  const auto arguments = eval_of(with_checkpoint({}));
  EXPECT_EQ(arguments.evaluation.checkpoint, folder_.path());
  EXPECT_EQ(arguments.request.model.model, "resnet56");
  EXPECT_EQ(arguments.request.dataset, "cifar10");
  EXPECT_EQ(arguments.request.normalize_as, "cifar10");
  EXPECT_EQ(arguments.request.image_size, (data::ImageSize{48, 40}));
  EXPECT_EQ(arguments.request.seed, 5U);
  EXPECT_EQ(arguments.request.precision, Precision::P16_16);
  EXPECT_EQ(arguments.request.half, Half::F16);
  EXPECT_TRUE(arguments.request.eight_bit_io);
  EXPECT_TRUE(arguments.evaluation.has_set_of_training);
}

TEST_F(EvalCheckpointTest, TheCommandLineWins) {
  write({{"model", "resnet56"},
         {"dataset", "cifar10"},
         {"image-size", "as stored"},
         {"seed", "5"},
         {"precision", "16.16"}});
  const auto arguments =
      eval_of(with_checkpoint({"--model", "mlp", "--dataset", "a.pack", "--weights", "average",
                               "--normalize-as", "b.pack", "--seed", "6", "--precision", "32.32"}));
  EXPECT_EQ(arguments.request.model.model, "mlp");
  EXPECT_EQ(arguments.request.dataset, "a.pack");
  EXPECT_EQ(arguments.request.normalize_as, "b.pack");
  EXPECT_EQ(arguments.request.image_size, std::nullopt);
  EXPECT_EQ(arguments.request.seed, 6U);
  EXPECT_EQ(arguments.request.precision, Precision::P32_32);
  EXPECT_EQ(arguments.evaluation.weights, CheckpointWeights::Average);
  EXPECT_FALSE(arguments.evaluation.has_set_of_training);
}

TEST_F(EvalCheckpointTest, NormalizesAnotherSetAsInTheTraining) {
  write({{"model", "resnet56"}, {"dataset", "cifar10"}});
  EXPECT_EQ(eval_of(with_checkpoint({"--dataset", "a.pack"})).request.normalize_as, "cifar10");
}

TEST_F(EvalCheckpointTest, MakesTheSyntheticSetOfTheTraining) {
  write({{"model", "mlp"}, {"dataset", "synthetic"}, {"classes", "4"}, {"data-seed", "9"}});
  const auto arguments = eval_of(with_checkpoint({"--size", "30", "--image-size", "8x8x1"}));
  EXPECT_EQ(arguments.request.set.synthetic.classes, 4);
  EXPECT_EQ(arguments.request.set.synthetic.seed, 9U);
  EXPECT_EQ(arguments.request.set.synthetic.size, 30);
  EXPECT_EQ(arguments.request.set.synthetic.channels, 1);
}

TEST_F(EvalCheckpointTest, ASplitIsThatOfThePackOfTheTraining) {
  write({{"model", "mlp"}, {"dataset", "set-train.pack"}});
  EXPECT_EQ(eval_of(with_checkpoint({"--split", "train"})).evaluation.split, data::Split::Train);
}

}  // namespace
}  // namespace lockstep::testing
