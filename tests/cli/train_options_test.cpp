#include <gtest/gtest.h>

#include "lockstep/cli/train_arguments.h"
#include "lockstep/cli/vector_unit.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::testing {
namespace {

using cli::parse_train_arguments;

using Words = std::vector<std::string>;

train::TrainRequest request_of(const Words& words) {
  return parse_train_arguments(words, {}).value().request;
}

topology::Identity launched_by(topology::LaunchedBy launcher) {
  topology::Identity identity;
  identity.launched_by = launcher;
  identity.num_instances = 4;
  identity.num_replicas = 8;
  identity.local_replicas = {0, 2};
  if (launcher == topology::LaunchedBy::Lockstep) identity.threads_per_device = 1;
  return identity;
}

TEST(TrainOptionsTest, DefaultsAreThoseOfTheRequest) {
  const auto request = request_of({});
  const train::TrainRequest defaults;
  EXPECT_EQ(request.model.model, "resnet20");
  EXPECT_EQ(request.dataset, "fashion-mnist");
  EXPECT_EQ(request.image_size, std::nullopt);
  EXPECT_EQ(request.augment, data::Augment::Standard);
  EXPECT_EQ(request.limit_train, std::nullopt);
  EXPECT_EQ(request.batch_size, 64);
  EXPECT_EQ(request.gradient_accumulation, 1);
  EXPECT_EQ(request.device_iterations, 1);
  EXPECT_EQ(request.replicas, std::nullopt);
  EXPECT_EQ(request.threads_per_device, std::nullopt);
  EXPECT_EQ(request.devices_per_replica, 1);
  EXPECT_TRUE(request.split.empty());
  EXPECT_EQ(request.pipeline, PipelineSchedule::OneForwardOneBackward);
  EXPECT_EQ(request.recompute, Recompute::None);
  EXPECT_EQ(request.cache_path, "");
  EXPECT_EQ(request.epochs, 5);
  EXPECT_EQ(request.schedule.kind, ScheduleKind::Constant);
  EXPECT_EQ(request.schedule.step_epochs, defaults.schedule.step_epochs);
  EXPECT_EQ(request.precision, Precision::P32_32);
  EXPECT_EQ(request.half, Half::BF16);
  EXPECT_EQ(request.reduction, Reduction::Mean);
  EXPECT_EQ(request.order, ReductionOrder::Ordered);
  EXPECT_EQ(request.loader_mode, data::LoaderMode::Async);
  EXPECT_EQ(request.workers, std::nullopt);
  EXPECT_FALSE(request.eight_bit_io);
  EXPECT_EQ(request.eval_every, 1);
  EXPECT_EQ(request.digest_every, 0);
}

TEST(TrainOptionsTest, TrainsWithMomentumByDefault) {
  const auto optimizer = request_of({}).optimizer;
  EXPECT_EQ(optimizer.kind(), OptimizerKind::Sgd);
  EXPECT_EQ(optimizer.lr(), 0.1);
  EXPECT_EQ(optimizer.sgd().momentum, 0.9);
  EXPECT_EQ(optimizer.weight_decay(), 0);
  EXPECT_EQ(optimizer.clip_norm(), std::nullopt);
  EXPECT_EQ(optimizer.average_decay(), std::nullopt);
}

TEST(TrainOptionsTest, EveryOptimizerHasALearningRateOfItsOwn) {
  EXPECT_EQ(request_of({"--optimizer", "adam"}).optimizer.kind(), OptimizerKind::Adam);
  EXPECT_EQ(request_of({"--optimizer", "adamw"}).optimizer.kind(), OptimizerKind::AdamW);
  EXPECT_EQ(request_of({"--optimizer", "lamb"}).optimizer.kind(), OptimizerKind::Lamb);
  EXPECT_EQ(request_of({"--optimizer", "adam"}).optimizer.lr(), 1e-3);
  EXPECT_EQ(request_of({"--optimizer", "lamb", "--lr", "0.25"}).optimizer.lr(), 0.25);
}

TEST(TrainOptionsTest, ReadsWhatIsTrainedOnWhat) {
  const auto request =
      request_of({"--model",      "resnet50",     "--init-from", "w.pt",         "--dataset",
                  "cifar10",      "--data-dir",   "d",           "--cache-path", "c",
                  "--image-size", "64x48",        "--augment",   "flip",         "--limit-train",
                  "1000",         "--limit-test", "100",         "--seed",       "7"});
  EXPECT_EQ(request.model.model, "resnet50");
  EXPECT_EQ(request.model.init_from, "w.pt");
  EXPECT_EQ(request.model.seed, 7);
  EXPECT_EQ(request.seed, 7);
  EXPECT_EQ(request.dataset, "cifar10");
  EXPECT_EQ(request.set.data_dir, "d");
  EXPECT_EQ(request.set.cache_dir, "c");
  EXPECT_EQ(request.cache_path, "c");
  EXPECT_EQ(request.image_size, (data::ImageSize{64, 48}));
  EXPECT_EQ(request.augment, data::Augment::Flip);
  EXPECT_EQ(request.limit_train, 1000);
  EXPECT_EQ(request.limit_test, 100);
}

TEST(TrainOptionsTest, MakesSyntheticPicturesAsTheyAreWanted) {
  const auto request = request_of({"--dataset", "synthetic", "--size", "512", "--classes", "3",
                                   "--data-seed", "5", "--image-size", "16x8x1"});
  EXPECT_EQ(request.set.synthetic.size, 512);
  EXPECT_EQ(request.set.synthetic.classes, 3);
  EXPECT_EQ(request.set.synthetic.seed, 5);
  EXPECT_EQ(request.set.synthetic.height, 16);
  EXPECT_EQ(request.set.synthetic.width, 8);
  EXPECT_EQ(request.set.synthetic.channels, 1);
  EXPECT_EQ(request.image_size, std::nullopt) << "there is nothing to resize";
  EXPECT_EQ(request_of({"--dataset", "synthetic", "--image-size", "16x8"}).set.synthetic.channels,
            3);
}

TEST(TrainOptionsTest, TakesFilesForModelAndData) {
  const auto request = request_of({"--model", "net.pt", "--dataset", "some/train.pack"});
  EXPECT_EQ(request.model.model, "net.pt");
  EXPECT_EQ(request.dataset, "some/train.pack");
}

TEST(TrainOptionsTest, ReadsHowItIsTrained) {
  const auto request = request_of({"--optimizer", "sgd",
                                   "--lr",        "0.4",
                                   "--momentum",  "0.8",
                                   "--nesterov",  "--weight-decay",
                                   "5e-4",        "--decay-of",
                                   "matrices",    "--clip-norm",
                                   "1",           "--ema-decay",
                                   "0.999",       "--schedule",
                                   "cosine",      "--warmup-epochs",
                                   "0.5",         "--final-lr-factor",
                                   "0.01",        "--label-smoothing",
                                   "0.1",         "--precision",
                                   "16.16",       "--half",
                                   "fp16",        "--reduction",
                                   "sum",         "--reduction-order",
                                   "fast",        "--deterministic"});
  EXPECT_EQ(request.optimizer.lr(), 0.4);
  EXPECT_EQ(request.optimizer.sgd().momentum, 0.8);
  EXPECT_TRUE(request.optimizer.sgd().nesterov);
  EXPECT_EQ(request.optimizer.weight_decay(), 5e-4);
  EXPECT_EQ(request.optimizer.decay(), DecayOf::Matrices);
  EXPECT_EQ(request.optimizer.clip_norm(), 1);
  EXPECT_EQ(request.optimizer.average_decay(), 0.999);
  EXPECT_EQ(request.schedule.kind, ScheduleKind::Cosine);
  EXPECT_EQ(request.schedule.warmup_epochs, 0.5);
  EXPECT_EQ(request.schedule.final_factor, 0.01);
  EXPECT_EQ(request.label_smoothing, 0.1);
  EXPECT_EQ(request.precision, Precision::P16_16);
  EXPECT_EQ(request.half, Half::F16);
  EXPECT_EQ(request.reduction, Reduction::Sum);
  EXPECT_EQ(request.order, ReductionOrder::Fast);
}

TEST(TrainOptionsTest, ReadsAScheduleOfSteps) {
  const auto schedule = request_of({"--schedule", "step", "--epochs", "90", "--step-epochs", "25",
                                    "--step-factor", "0.2"})
                            .schedule;
  EXPECT_EQ(schedule.kind, ScheduleKind::Step);
  EXPECT_EQ(schedule.step_epochs, 25);
  EXPECT_EQ(schedule.step_factor, 0.2);
}

TEST(TrainOptionsTest, ReadsHowItIsLoadedAndWhatComesOfIt) {
  const ScratchFolder folder;
  const auto request = request_of({"--sync-dataloader", "--num-workers", "0", "--eval-every", "0",
                                   "--digest-every", "10", "--log-dir", "logs", "--export",
                                   folder.path() + "/w.safetensors", "--summary", "s.json"});
  EXPECT_EQ(request.loader_mode, data::LoaderMode::Sync);
  EXPECT_EQ(request.workers, 0);
  EXPECT_EQ(request.eval_every, 0);
  EXPECT_EQ(request.digest_every, 10);
  EXPECT_EQ(request.log_dir, "logs");
  EXPECT_EQ(request.export_to, folder.path() + "/w.safetensors");
  EXPECT_EQ(request.summary_file, "s.json");
}

TEST(TrainOptionsTest, ReadsHowAReplicaIsSpreadOverDevices) {
  const auto request = request_of({"--devices-per-replica", "3", "--split", "layer2.0, layer3.8",
                                   "--pipeline", "gpipe", "--recompute"});
  EXPECT_EQ(request.devices_per_replica, 3);
  EXPECT_EQ(request.split, (Words{"layer2.0", "layer3.8"}));
  EXPECT_EQ(request.pipeline, PipelineSchedule::GPipe);
  EXPECT_EQ(request.recompute, Recompute::Stage);
  EXPECT_EQ(request_of({"--ipus-per-replica", "2"}).devices_per_replica, 2);
  EXPECT_EQ(request_of({"--ipus-per-replica", "2", "--pipeline", "1f1b"}).pipeline,
            PipelineSchedule::OneForwardOneBackward);
  EXPECT_EQ(request_of({"--ipus-per-replica", "2", "--pipeline", "sequential"}).pipeline,
            PipelineSchedule::Sequential);
}

TEST(TrainOptionsTest, ASplitSaysHowManyDevicesThereAre) {
  EXPECT_EQ(request_of({"--split", "a"}).devices_per_replica, 2);
  EXPECT_EQ(request_of({"--split", "a,b", "--pipeline", "gpipe"}).devices_per_replica, 3);
}

TEST(TrainOptionsTest, RecomputesStagesOrBlocks) {
  EXPECT_EQ(request_of({"--recompute=stage"}).recompute, Recompute::Stage);
  EXPECT_EQ(request_of({"--recompute=blocks"}).recompute, Recompute::Blocks);
  EXPECT_EQ(request_of({"--recompute", "blocks"}).recompute, Recompute::Blocks);
  EXPECT_EQ(request_of({"--recompute", "--epochs", "1"}).recompute, Recompute::Stage);
}

TEST(TrainOptionsTest, TakesTheTutorialsCommands) {
  const Words tutorial{
      "--batch-size",        "64", "--gradient-accumulation", "8",
      "--device-iterations", "4",  "--eight-bit-io",          "--async-dataloader"};
  auto alone = tutorial;
  alone.insert(alone.end(), {"--replicas", "8"});
  const auto request = request_of(alone);
  EXPECT_EQ(request.batch_size, 64);
  EXPECT_EQ(request.gradient_accumulation, 8);
  EXPECT_EQ(request.device_iterations, 4);
  EXPECT_EQ(request.loader_mode, data::LoaderMode::Async);
  EXPECT_TRUE(request.eight_bit_io);
  EXPECT_EQ(request.replicas, 8);

  auto launched = tutorial;
  launched.insert(launched.end(), {"--precision", "16.16", "--epochs", "5"});
  const auto in_job =
      parse_train_arguments(launched, launched_by(topology::LaunchedBy::Lockstep)).value().request;
  EXPECT_EQ(in_job.replicas, std::nullopt) << "they are the launcher's";
  EXPECT_EQ(in_job.precision, Precision::P16_16);
  EXPECT_EQ(in_job.epochs, 5);
}

TEST(TrainOptionsTest, TakesWhatOnlyLooksLikeAConflict) {
  EXPECT_NO_THROW(request_of({"--eight-bit-io", "--augment", "none"}));
  EXPECT_NO_THROW(request_of({"--num-workers", "4", "--async-dataloader"}));
  EXPECT_NO_THROW(request_of({"--momentum", "0"}));
  EXPECT_NO_THROW(request_of({"--replicas", "3", "--num-instances", "3"}));
  EXPECT_NO_THROW(request_of({"--digest-every", "0"}));
  EXPECT_NO_THROW(request_of({"--device", "cpu", "--cpu-features", "auto"}));
}

struct Refused {
  Words words;
  const char* complaint;
  const char* hint;
  ErrorKind kind = ErrorKind::Options;
  friend std::ostream& operator<<(std::ostream& out, const Refused& refused) {
    return out << refused.complaint;
  }
};

void expect_refused(const Refused& refused, const topology::Identity& identity) {
  expect_error([&] { parse_train_arguments(refused.words, identity); }, refused.kind,
               std::string("train: ") + refused.complaint + "\n" + refused.hint);
}

class TrainRefusalTest : public ::testing::TestWithParam<Refused> {};

TEST_P(TrainRefusalTest, NamesWhatIsWrongAndWhatWouldWork) {
  expect_refused(GetParam(), {});
}

INSTANTIATE_TEST_SUITE_P(
    Names, TrainRefusalTest,
    ::testing::Values(
        Refused{{"--model", "resnet21"},
                "--model: expected one of mlp, convnet, resnet20, resnet32, resnet44, resnet56, "
                "resnet110, resnet18, resnet34, resnet50, resnet101, resnet152, or a TorchScript "
                "file that ends in .pt, found 'resnet21'",
                "--model resnet20"},
        Refused{{"--dataset", "cifar11"},
                "--dataset: expected one of cifar10, cifar100, mnist, fashion-mnist, folder, "
                "synthetic, or the path of a .pack, found 'cifar11'",
                "--dataset cifar10"},
        Refused{{"--optimizer", "adan"},
                "--optimizer: expected one of sgd, adam, adamw, lamb, found 'adan'",
                "--optimizer adam"},
        Refused{{"--decay-of", "matrixes"},
                "--decay-of: expected one of all, matrices, found 'matrixes'",
                "--decay-of matrices"},
        Refused{{"--schedule", "cosin"},
                "--schedule: expected one of constant, step, cosine, linear, found 'cosin'",
                "--schedule cosine"},
        Refused{{"--augment", "flop"},
                "--augment: expected one of none, flip, standard, found 'flop'",
                "--augment flip"},
        Refused{{"--precision", "16"},
                "--precision: expected one of 32.32, 16.32, 16.16, found '16'",
                "--precision"},
        Refused{{"--half", "bf17", "--precision", "16.16"},
                "--half: expected one of bf16, fp16, found 'bf17'",
                "--half bf16"},
        Refused{{"--reduction", "means"},
                "--reduction: expected one of mean, sum, found 'means'",
                "--reduction mean"},
        Refused{{"--reduction-order", "order"},
                "--reduction-order: expected one of ordered, fast, found 'order'",
                "--reduction-order ordered"},
        Refused{{"--device", "cud"},
                "--device: expected one of auto, cpu, cuda, found 'cud'",
                "--device cuda"},
        Refused{{"--pipeline", "1f1c", "--devices-per-replica", "2"},
                "--pipeline: expected one of 1f1b, gpipe, sequential, found '1f1c'",
                "--pipeline 1f1b"},
        Refused{{"--recompute=block"},
                "--recompute: expected one of stage, blocks, found 'block'",
                "--recompute blocks"},
        Refused{{"--split", "layer2.0,,layer3.0"},
                "--split: expected names of blocks with a comma between them, found "
                "'layer2.0,,layer3.0'",
                "--split layer2.0,layer3.0"},
        Refused{{"--split", ""},
                "--split: expected names of blocks with a comma between them, found ''",
                "--split layer2.0,layer3.0; or --devices-per-replica alone"},
        Refused{{"--cpu-features", "avx3"},
                "--cpu-features: expected one of auto, sse4, avx2, avx512, found 'avx3'",
                "--cpu-features avx2"}));

INSTANTIATE_TEST_SUITE_P(
    Conflicts, TrainRefusalTest,
    ::testing::Values(
        Refused{{"--momentum", "0.9", "--optimizer", "adam"},
                "--momentum works with --optimizer sgd, but --optimizer is adam",
                "give --optimizer sgd, or leave --momentum out"},
        Refused{{"--nesterov", "--optimizer", "lamb"},
                "--nesterov works with --optimizer sgd, but --optimizer is lamb",
                "give --optimizer sgd, or leave --nesterov out"},
        Refused{{"--nesterov", "--momentum", "0"},
                "--nesterov works with a --momentum above 0, but --momentum is 0",
                "give a --momentum above 0, or leave --nesterov out"},
        Refused{{"--decay-of", "matrices"},
                "--decay-of works with a --weight-decay above 0, but --weight-decay is 0",
                "give a --weight-decay above 0, or leave --decay-of out"},
        Refused{{"--step-epochs", "2"},
                "--step-epochs works with --schedule step, but --schedule is constant",
                "give --schedule step, or leave --step-epochs out"},
        Refused{{"--step-factor", "0.5", "--schedule", "cosine"},
                "--step-factor works with --schedule step, but --schedule is cosine",
                "give --schedule step, or leave --step-factor out"},
        Refused{{"--final-lr-factor", "0.5"},
                "--final-lr-factor works with --schedule cosine or linear, but --schedule is "
                "constant",
                "give --schedule cosine or linear, or leave --final-lr-factor out"},
        Refused{{"--half", "fp16"},
                "--half works with --precision 16.16 or 16.32, but --precision is 32.32",
                "give --precision 16.16 or 16.32, or leave --half out"},
        Refused{{"--size", "100"},
                "--size works with --dataset synthetic, but --dataset is fashion-mnist",
                "give --dataset synthetic, or leave --size out"},
        Refused{{"--classes", "3", "--dataset", "cifar10"},
                "--classes works with --dataset synthetic, but --dataset is cifar10",
                "give --dataset synthetic, or leave --classes out"},
        Refused{{"--data-seed", "3"},
                "--data-seed works with --dataset synthetic, but --dataset is fashion-mnist",
                "give --dataset synthetic, or leave --data-seed out"},
        Refused{{"--digest-every", "5"},
                "--digest-every works with --log-dir, but none is given",
                "give --log-dir, or leave --digest-every out"},
        Refused{{"--checkpoint-every", "5"},
                "--checkpoint-every works with --checkpoint-dir, but none is given",
                "give --checkpoint-dir, or leave --checkpoint-every out"},
        Refused{{"--checkpoint-keep", "5"},
                "--checkpoint-keep works with --checkpoint-dir, but none is given",
                "give --checkpoint-dir, or leave --checkpoint-keep out"},
        Refused{{"--resume"},
                "--resume works with --checkpoint-dir, or the path of a checkpoint, but neither is "
                "given",
                "give --checkpoint-dir, or the path of a checkpoint, or leave --resume out"},
        Refused{{"--resume=auto"},
                "--resume works with --checkpoint-dir, or the path of a checkpoint, but neither is "
                "given",
                "give --checkpoint-dir, or the path of a checkpoint, or leave --resume out"},
        Refused{{"--checkpoint-dir", "c", "--checkpoint-every", "often"},
                "--checkpoint-every: expected how often, found 'often'",
                "500 steps, 2 epochs, 30s, 10min, 1.5h or never"},
        Refused{{"--async-dataloader", "--sync-dataloader"},
                "expected --async-dataloader or --sync-dataloader, found both",
                "leave one of them out"},
        Refused{{"--num-workers", "2", "--sync-dataloader"},
                "--num-workers is 2, but --sync-dataloader has none",
                "leave --sync-dataloader out, or give --num-workers 0"},
        Refused{{"--warmup-epochs", "5"},
                "--warmup-epochs is 5, which leaves nothing of --epochs 5",
                "lower --warmup-epochs, or raise --epochs"},
        Refused{{"--schedule", "step", "--warmup-epochs", "1"},
                "--schedule step falls first after 31 epochs, which --epochs 5 does not reach",
                "lower --step-epochs, or raise --epochs"},
        Refused{{"--image-size", "32x32x1"},
                "--image-size is 32x32x1, but the channels of --dataset fashion-mnist are its own",
                "--image-size 32x32"},
        Refused{{"--image-size", "32"},
                "--image-size: expected HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS, each from 1 to "
                "65536, found '32'",
                "--image-size"},
        Refused{{"--num-instances", "4", "--replicas", "3"},
                "4 instances need a replica each, but --replicas is 3",
                "raise --replicas to 4 or lower --num-instances to 3"},
        Refused{{"--transport", "local", "--num-instances", "2"},
                "--transport local stays within one process, but --num-instances is 2",
                "--transport shm, or --num-instances 1"},
        Refused{{"--split", "a,b", "--devices-per-replica", "2"},
                "--split names 2 blocks, which makes 3 stages, but --devices-per-replica is 2",
                "give --devices-per-replica 3, or name 1 for --split"},
        Refused{{"--split", "a", "--devices-per-replica", "3"},
                "--split names 1 block, which makes 2 stages, but --devices-per-replica is 3",
                "give --devices-per-replica 2, or name 2 for --split"},
        Refused{{"--split", "a", "--devices-per-replica", "1"},
                "--split names 1 block, which makes 2 stages, but --devices-per-replica is 1",
                "give --devices-per-replica 2, or leave --split out"},
        Refused{{"--pipeline", "gpipe"},
                "--pipeline works with several devices per replica, but --devices-per-replica is 1",
                "give --devices-per-replica 2, or leave --pipeline out"},
        Refused{{"--num-instances", "0"},
                "--num-instances is 0, expected at least 1",
                "--num-instances 1"},
        Refused{{"--num-instances", "2", "--only-output-from-instance", "2"},
                "--only-output-from-instance is 2, expected 0 to 1",
                ""},
        Refused{{"-v", "-q"}, "expected --verbose or --quiet, found both", ""},
        Refused{{"--device", "cuda"},
                "--device: expected auto or cpu, found cuda: this build computes on the CPU",
                "--device cpu",
                ErrorKind::Unavailable}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, TrainRefusalTest,
    ::testing::Values(Refused{{"--batch-size", "0"},
                              "--batch-size: expected a whole number from 1 on, found '0'",
                              "lockstep train --help"},
                      Refused{{"--epochs", "-1"},
                              "--epochs: expected a whole number from 0 on, found '-1'",
                              "lockstep train --help"},
                      Refused{{"--replicas", "two"},
                              "--replicas: expected a whole number from 1 on, found 'two'",
                              "lockstep train --help"},
                      Refused{{"--devices-per-replica", "0"},
                              "--devices-per-replica: expected a whole number from 1 on, found '0'",
                              "lockstep train --help"},
                      Refused{{"--limit-test", "0"},
                              "--limit-test: expected a whole number from 1 on, found '0'",
                              "lockstep train --help"},
                      Refused{{"--eval-every", "-1"},
                              "--eval-every: expected a whole number from 0 on, found '-1'",
                              "lockstep train --help"},
                      Refused{{"--seed", "-1"},
                              "--seed: expected a whole number from 0 on, found '-1'",
                              "lockstep train --help"},
                      Refused{{"--lr", "nan"},
                              "--lr: expected a number of 0 or more, found 'nan'",
                              "lockstep train --help"},
                      Refused{{"--lr", "0.1x"},
                              "--lr: expected a number of 0 or more, found '0.1x'",
                              "lockstep train --help"},
                      Refused{{"--weight-decay", "inf"},
                              "--weight-decay: expected a number of 0 or more, found 'inf'",
                              "lockstep train --help"},
                      Refused{{"--momentum", "1"},
                              "--momentum: expected a number from 0 to below 1, found '1'",
                              "lockstep train --help"},
                      Refused{
                          {"--label-smoothing", "-0.1"},
                          "--label-smoothing: expected a number from 0 to below 1, found '-0.1'",
                          "lockstep train --help"},
                      Refused{{"--clip-norm", "0"},
                              "--clip-norm: expected a number above 0, found '0'",
                              "lockstep train --help"},
                      Refused{{"--ema-decay", "0"},
                              "--ema-decay: expected a number between 0 and 1, found '0'",
                              "lockstep train --help"}));

TEST(TrainOptionsTest, RefusesBatchesOutOfAllRange) {
  expect_error(
      [] {
        request_of({"--batch-size", "4611686018427387904"});
      },
      ErrorKind::Options, "an iteration of 4611686018427387904 x 1 x 1 x 1 samples");
}

TEST(TrainOptionsTest, RefusesAFileThatCouldNotBeWrittenAfterHours) {
  expect_error(
      [] {
        request_of({"--export", "weights.bin"});
      },
      ErrorKind::Options,
      "weights.bin: expected a name that ends with .safetensors, .pt or .pth, found "
      "'.bin'\nweights.bin.safetensors");
  expect_error(
      [] {
        request_of({"--export", "/no/such/w.pt"});
      },
      ErrorKind::Io,
      "train: --export /no/such/w.pt: expected '/no/such' to be a folder, found none\n"
      "mkdir -p /no/such");
  expect_error(
      [] {
        request_of({"--summary", "/no/such/s.json"});
      },
      ErrorKind::Io,
      "train: --summary /no/such/s.json: expected '/no/such' to be a folder, found none");
  expect_error(
      [] {
        request_of({"--report", "/no/such/r.html"});
      },
      ErrorKind::Io,
      "train: --report /no/such/r.html: expected '/no/such' to be a folder, found none\n"
      "mkdir -p /no/such");
}

TEST(TrainOptionsTest, RefusesAReportThatCannotReplaceItsTarget) {
  const ScratchFolder folder;
  expect_error(
      [&] {
        request_of({"--report", folder.path()});
      },
      ErrorKind::Io,
      "train: --report " + folder.path() +
          ": expected a file that can be replaced, found a folder\n" + folder.path() +
          "/report.html");
  expect_error(
      [] {
        request_of({"--report", "/dev/null"});
      },
      ErrorKind::Io,
      "train: --report /dev/null: expected a file that can be replaced, found another kind of "
      "file\nname a regular file");
  const auto old = folder.write("r.html", "old");
  EXPECT_EQ(request_of({"--report", old}).report_file, old);
  EXPECT_EQ(request_of({"--report", folder.path() + "/new.html"}).report_file,
            folder.path() + "/new.html");
}

TEST(TrainOptionsTest, KnowsTheDefaultsOfTheOptionsThatWereNotGiven) {
  const auto arguments = parse_train_arguments({"--batch-size", "8"}, {}).value();
  const auto value_of = [](const std::vector<cli::GivenOption>& options, const char* name) {
    const auto found = std::ranges::find(options, name, &cli::GivenOption::name);
    return found == options.end() ? "none" : found->value.value_or("no value");
  };
  EXPECT_EQ(value_of(arguments.given, "--batch-size"), "8");
  EXPECT_EQ(value_of(arguments.defaults, "--batch-size"), "none");
  EXPECT_EQ(value_of(arguments.defaults, "--model"), "resnet20");
  EXPECT_EQ(value_of(arguments.defaults, "--momentum"), "0.9");
  EXPECT_EQ(value_of(arguments.defaults, "--resume"), "none") << "it has no value unless given";
  EXPECT_EQ(value_of(arguments.defaults, "--report"), "none");
}

TEST(TrainOptionsTest, LeavesToTheLauncherWhatIsTheLaunchers) {
  auto identity = launched_by(topology::LaunchedBy::Lockstep);
  identity.devices_per_replica = 2;
  for (const auto& refused : {
           Refused{{"--replicas", "8"},
                   "8 replicas are set by the launcher, found --replicas",
                   "pass --num-replicas to it instead"},
           Refused{{"--num-instances", "1"},
                   "4 instances are set by the launcher, found --num-instances",
                   "pass --num-instances to it instead"},
           Refused{{"--threads-per-device", "2"},
                   "--threads-per-device is set by the launcher (1), found 2",
                   "pass the option to 'lockstep run' instead"},
           Refused{{"--ipus-per-replica", "2"},
                   "2 devices per replica are set by the launcher, found --devices-per-replica",
                   "pass --devices-per-replica to it instead"},
           Refused{{"--cache-path", "c"},
                   "a launcher has started this process, found --cache-path",
                   "pass --cache-path to it instead"},
           Refused{{"--split", "a,b"},
                   "--split names 2 blocks, which makes 3 stages, but 2 devices per replica are "
                   "set by the launcher",
                   "pass --devices-per-replica 3 to it, or name 1 for --split"},
           Refused{{"--bind", "none"},
                   "a launcher has started this process, found --bind",
                   "pass --bind to it instead"},
           Refused{{"-q"},
                   "a launcher has started this process, found --quiet",
                   "pass --quiet to it instead"},
       }) {
    expect_refused(refused, identity);
  }
}

TEST(TrainOptionsTest, AcceptsTheNumberOfThreadsThatTheLauncherHasSet) {
  auto identity = launched_by(topology::LaunchedBy::Lockstep);
  for (const int threads : {1, 3}) {
    identity.threads_per_device = threads;
    const auto arguments =
        parse_train_arguments({"--threads-per-device", std::to_string(threads)}, identity).value();
    EXPECT_EQ(arguments.request.threads_per_device, std::nullopt) << "it is the launcher's";
  }
  expect_refused({{"--threads-per-device", "1"},
                  "--threads-per-device is set by the launcher (3), found 1",
                  "pass the option to 'lockstep run' instead"},
                 identity);
}

TEST(TrainOptionsTest, TakesTheDevicesOfTheLauncher) {
  auto identity = launched_by(topology::LaunchedBy::Lockstep);
  expect_refused({{"--pipeline", "gpipe"},
                  "--pipeline works with several devices per replica, but 1 device per replica is "
                  "set by the launcher",
                  "pass --devices-per-replica 2 to it, or leave --pipeline out"},
                 identity);
  identity.devices_per_replica = 2;
  const auto request =
      parse_train_arguments({"--pipeline", "gpipe", "--split", "a"}, identity).value().request;
  EXPECT_EQ(request.devices_per_replica, std::nullopt) << "they are the launcher's";
  EXPECT_EQ(request.split, Words{"a"});
}

TEST(TrainOptionsTest, KnowsThatOtherLaunchersHaveNoReplicas) {
  const auto identity = launched_by(topology::LaunchedBy::Torchrun);
  expect_refused({{"--replicas", "8"},
                  "8 replicas are set by the launcher, found --replicas",
                  "leave --replicas out, or start it with 'lockstep run --num-replicas'"},
                 identity);
  expect_refused({{"--split", "a"},
                  "--split names 1 block, which makes 2 stages, but 1 device per replica is set by "
                  "the launcher",
                  "leave --split out, or start it with 'lockstep run --devices-per-replica 2'"},
                 identity);
  EXPECT_EQ(parse_train_arguments({"--cache-path", "c"}, identity).value().request.cache_path, "c");
  EXPECT_EQ(parse_train_arguments({"--threads-per-device", "2"}, identity)
                .value()
                .request.threads_per_device,
            2);
}

TEST(PlanOptionsTest, AreThoseOfTrainAndAFile) {
  const auto plan = parse_train_arguments({"--batch-size", "8", "--num-instances", "2", "--json",
                                           "p.json", "--split", "a"},
                                          {}, cli::TrainCommand::Plan)
                        .value();
  EXPECT_EQ(plan.command, cli::TrainCommand::Plan);
  EXPECT_EQ(plan.request.batch_size, 8);
  EXPECT_EQ(plan.request.devices_per_replica, 2);
  EXPECT_EQ(plan.job.run.num_instances, 2);
  EXPECT_EQ(plan.job.run.devices_per_replica, 2);
  EXPECT_EQ(plan.json_file, "p.json");
  expect_refused({{"--json", "p.json"}, "unknown option '--json'", ""}, {});
}

TEST(PlanOptionsTest, AreRefusedInThePlansName) {
  const auto expect = [](const Words& words, ErrorKind kind, const std::string& text) {
    expect_error([&] { parse_train_arguments(words, {}, cli::TrainCommand::Plan); }, kind, text);
  };
  expect({"--batch-size", "0"}, ErrorKind::Options,
         "plan: --batch-size: expected a whole number from 1 on, found '0'\nlockstep plan --help");
  expect({"--model", "resnet21"}, ErrorKind::Options, "plan: --model: expected one of ");
  expect({"--augment", "flop"}, ErrorKind::Options, "plan: --augment: expected one of ");
  expect({"--image-size", "32"}, ErrorKind::Options, "plan: --image-size: expected HEIGHTxWIDTH");
  expect({"--pipeline", "gpipe"}, ErrorKind::Options,
         "plan: --pipeline works with several devices");
  expect({"--device", "cuda"}, ErrorKind::Unavailable, "plan: --device: expected auto or cpu");
  expect({"-v", "-q"}, ErrorKind::Options, "plan: expected --verbose or --quiet, found both");
  expect({"--json", "/no/such/p.json"}, ErrorKind::Io,
         "plan: --json /no/such/p.json: expected '/no/such' to be a folder, found none");
}

TEST(PlanOptionsTest, AreForAProcessThatIsAlone) {
  for (const auto launcher : {topology::LaunchedBy::Lockstep, topology::LaunchedBy::Torchrun}) {
    expect_error([&] { parse_train_arguments({}, launched_by(launcher), cli::TrainCommand::Plan); },
                 ErrorKind::Options,
                 "plan: expected to be started by itself, found that a launcher has started it\n"
                 "run 'lockstep plan' without the launcher");
  }
}

TEST(TrainOptionsTest, RefusesAVectorUnitThatIsNotHere) {
  const auto here = cli::vector_units_here();
  if (std::ranges::find(here, cli::VectorUnit::Avx512) != here.end()) {
    EXPECT_NO_THROW(request_of({"--cpu-features", "avx512"}));
    return;
  }
  expect_error(
      [] {
        request_of({"--cpu-features", "avx512"});
      },
      ErrorKind::Unavailable, "found avx512");
}

}  // namespace
}  // namespace lockstep::testing
