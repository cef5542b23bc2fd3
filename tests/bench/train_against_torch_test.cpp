// `bench train --against torch`, without torch and without a training engine: scripts stand in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "bench/train/against_torch.h"
#include "bench/train/images.h"
#include "bench/train/runs.h"
#include "lockstep/base/file.h"
#include "lockstep/data/sets/array_dataset.h"
#include "tests/data/made_files.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::bench {
namespace {

using ::testing::AllOf;
using testing::expect_error;
using ::testing::HasSubstr;

constexpr std::int64_t kSide = 32;

data::ArrayDataset set_of(const std::string& pixels, std::vector<std::int64_t> labels,
                          std::vector<std::int64_t> shape) {
  return data::ArrayDataset(
      {{"image", DataType::U8, std::move(shape)}, {"label", DataType::I64}},
      {data::array_of(std::vector<std::uint8_t>(pixels.begin(), pixels.end())),
       data::array_of(std::move(labels))});
}

/// What `padded_to_32x32x3` should make of a gray picture, pixel by pixel.
std::string padded_by_hand(std::string_view gray, std::int64_t height, std::int64_t width) {
  std::string padded;
  for (std::int64_t y = 0; y < kSide; ++y) {
    for (std::int64_t x = 0; x < kSide; ++x) {
      const auto from_y = y - (kSide - height) / 2;
      const auto from_x = x - (kSide - width) / 2;
      const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
      padded.append(3, inside ? gray[static_cast<std::size_t>(from_y * width + from_x)] : '\0');
    }
  }
  return padded;
}

std::string image_of(const data::Dataset& set, std::int64_t index) {
  data::Sample sample(set.fields());
  set.sample(index, sample);
  return {reinterpret_cast<const char*>(sample.data(0)), bytes_of(set.fields()[0])};
}

std::int64_t label_of(const data::Dataset& set, std::int64_t index) {
  data::Sample sample(set.fields());
  set.sample(index, sample);
  std::int64_t label = -1;
  std::memcpy(&label, sample.data(1), sizeof label);
  return label;
}

TEST(BenchTrainDataTest, PutsBlackAroundGrayPicturesAndRepeatsTheirChannel) {
  for (const auto& [height, width] : {std::pair{28L, 28L}, std::pair{32L, 6L}}) {
    const auto one = static_cast<std::size_t>(height * width);
    const auto gray = testing::pattern(2 * one, 7);
    const auto padded = padded_to_32x32x3(set_of(gray, {4, 9}, {height, width, 1}), 3);
    ASSERT_EQ(padded->size(), 3);
    const auto first = padded_by_hand(std::string_view(gray).substr(0, one), height, width);
    const auto second = padded_by_hand(std::string_view(gray).substr(one), height, width);
    EXPECT_EQ(image_of(*padded, 0), first);
    EXPECT_EQ(image_of(*padded, 1), second);
    EXPECT_EQ(image_of(*padded, 2), first);  // the third of two is the first again
    EXPECT_EQ(label_of(*padded, 1), 9);
    EXPECT_EQ(label_of(*padded, 2), 4);
  }
}

TEST(BenchTrainDataTest, RefusesPicturesThatItCannotPad) {
  const std::vector<std::vector<std::int64_t>> shapes{{4, 4, 3}, {34, 4, 1}, {5, 4, 1}};
  for (const auto& shape : shapes) {
    const auto bytes = static_cast<std::size_t>(shape[0] * shape[1] * shape[2]);
    const auto set = set_of(testing::pattern(bytes, 1), {0}, shape);
    expect_error([&] { padded_to_32x32x3(set, 1); }, ErrorKind::Options,
                 "bench train: expected gray pictures of 8 bits and an even size up to 32x32, "
                 "found image u8");
  }
}

TEST(BenchTrainDataTest, WritesTheSamePicturesForBothSides) {
  const testing::ScratchFolder files;
  const auto gray = testing::pattern(3 * 28 * 28, 3);
  files.write("train-images-idx3-ubyte", testing::idx({3, 28, 28}, gray));
  files.write("train-labels-idx1-ubyte", testing::idx({3}, "\x05\x01\x09"));
  const testing::ScratchFolder folder;
  const auto data = write_train_data(3, folder.path(), {.data_dir = files.path()});
  std::string expected;
  for (std::size_t i = 0; i < 3; ++i) {
    expected += padded_by_hand(std::string_view(gray).substr(i * 28 * 28, 28 * 28), 28, 28);
  }
  EXPECT_EQ(read_file(data.pixels), expected);
  const auto pack = data::open_set(data.pack, data::Split::Train);
  ASSERT_EQ(pack->size(), 3);
  EXPECT_EQ(image_of(*pack, 0) + image_of(*pack, 1) + image_of(*pack, 2), expected);
  EXPECT_EQ(label_of(*pack, 2), 9);
  const auto labels = read_file(data.labels);
  ASSERT_EQ(labels.size(), 24U);
  EXPECT_EQ(labels[16], 9);
  EXPECT_EQ(data.normalize.mean, std::vector(3, 0.2860F));
}

TEST(BenchTrainDataTest, MakesPicturesUpWhereThereIsNoFashionMnist) {
  const testing::ScratchFolder nothing;
  const testing::ScratchFolder folder;
  ::testing::internal::CaptureStderr();
  const auto data = write_train_data(20, folder.path(), {.data_dir = nothing.path()});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the pictures are made up\n"));
  EXPECT_EQ(std::filesystem::file_size(data.pixels), 20U * kSide * kSide * 3);
  EXPECT_EQ(data::open_set(data.pack, data::Split::Train)->size(), 20);
}

constexpr TrainStart kStart{.unix_s = 1000.5, .steps = 50, .classes = 10};

TEST(BenchTrainRunsTest, ReadsWhatBothSidesReport) {
  const auto ours = read_lockstep_run(
      "lockstep",
      R"({"optimizer_steps": 50, "first_step_unix_s": 1001.75, "last_step_unix_s": 1011.55,
          "train_loss": 1.5, "samples_per_second": 7, "weights": "00ff",
          "time": {"data": 0.004, "compute": 0.9, "idle": 0.05}})",
      kStart);
  EXPECT_DOUBLE_EQ(ours.to_first_step.count(), 1.25);
  EXPECT_NEAR(ours.per_step.count(), 0.2, 1e-9);  // 49 steps after the first
  EXPECT_DOUBLE_EQ(ours.data_share, 0.004);
  EXPECT_DOUBLE_EQ(ours.train_loss, 1.5);
  EXPECT_DOUBLE_EQ(ours.idle_share, 0.05);
  EXPECT_EQ(ours.weights, "00ff");

  const auto theirs =
      read_torch_run("torch",
                     R"({"steps": 50, "first_step_unix_s": 1003.5, "last_step_unix_s": 1018.2,
          "train_loss": 1.6, "data_share": 0.08})",
                     kStart);
  EXPECT_DOUBLE_EQ(theirs.to_first_step.count(), 3);
  EXPECT_NEAR(theirs.per_step.count(), 0.3, 1e-9);
  EXPECT_DOUBLE_EQ(theirs.data_share, 0.08);

  const auto times = read_update_times("torch", "{\"seconds\": [0.5, 0.25]}\n");
  EXPECT_THAT(times, ::testing::ElementsAre(Seconds(0.5), Seconds(0.25)));
}

struct BadRun {
  const char* json;
  const char* message;
};

TEST(BenchTrainRunsTest, RefusesRunsThatProveNothing) {
  const BadRun bad[] = {
      {"", "bench train: torch: expected results as JSON, found ''"},
      {"{}", "bench train: torch: expected results as JSON, found '{}': "},
      {R"({"steps": 49})", "bench train: torch: expected 50 steps, found 49"},
      {R"({"steps": 50, "first_step_unix_s": 1003, "last_step_unix_s": 1018, "data_share": 0,
           "train_loss": 2.31})",
       "bench train: torch: expected a mean loss below 2.30, which guessing among 10 classes has, "
       "found 2.31"},
      {R"({"steps": 50, "first_step_unix_s": 999, "last_step_unix_s": 1018, "data_share": 0,
           "train_loss": 1})",
       "bench train: torch: expected a first step after the start at 1000.500 and before the last "
       "step at 1018.000, found one at 999.000"},
  };
  for (const auto& [json, message] : bad) {
    expect_error([json = json] { read_torch_run("torch", json, kStart); }, ErrorKind::Io, message);
  }
  expect_error([] { read_lockstep_run("lockstep", R"({"optimizer_steps": 1})", kStart); },
               ErrorKind::Io, "bench train: lockstep: expected 50 steps, found 1");
  static constexpr TrainStart kOther{.steps = 2, .bench = "bench pipeline"};
  expect_error([] { read_lockstep_run("gpipe", R"({"optimizer_steps": 1})", kOther); },
               ErrorKind::Io, "bench pipeline: gpipe: expected 2 steps, found 1");
  expect_error([] { read_update_times("lockstep", "seconds"); }, ErrorKind::Io,
               "bench train: lockstep: expected results as JSON, found 'seconds'");
}

/// Stands in for `lockstep train` and `lockstep run`. Our steps take 0.1 s, those of torch 0.2 s.
constexpr const char* kTorchDouble = R"(#!/bin/sh
echo "$*" >> "${0%/*}/calls"
result() {
  first=$(($(date +%s) + $2))
  echo "{\"$1\": 50, \"first_step_unix_s\": $first.0, \"last_step_unix_s\": $(($first + $3)).$4,"
  echo "\"train_loss\": 1.5, \"data_share\": 0.075, \"weights\": \"00ff\","
  echo "\"time\": {\"data\": 0.002, \"idle\": 0.01}}"
}
case "$*" in
  train*) for last; do :; done; result optimizer_steps 2 4 9 > "$last"; echo "a progress bar";;
  *update-worker*) echo '{"seconds": [0.02, 0.03, 0.01]}';;
  *--update*) echo '{"seconds": [0.08, 0.04, 0.12]}';;
  *) result steps 2000 9 8;;
esac
)";

class BenchTrainTorchTest : public ::testing::Test {
 protected:
  Report measure(const AgainstTorchOptions& options) const {
    return measure_against_torch(options, programs_, topology::Environment::of_this_process());
  }

  std::string calls() const { return read_file(folder_.path() + "/calls"); }

  testing::ScratchFolder folder_;
  TrainPrograms programs_{folder_.write("lockstep", kTorchDouble, 0755),
                          "/bin/lockstep-bench",
                          {"/bin/python3", "/libexec/torch_train.py"}};
};

TEST_F(BenchTrainTorchTest, ComparesJobsWithEachVariantOfTorch) {
  const auto report = measure({.works = {TrainWork::Train}, .rounds = 2});
  ASSERT_EQ(report.rows.size(), 10U);
  const auto& ours = report.rows[0];
  EXPECT_EQ(ours.work, "train resnet20, batch 64, 2 instances x 1 thread");
  EXPECT_EQ(ours.system, "lockstep");
  EXPECT_EQ(ours.timing.rounds, 2);  // the third warmed up
  EXPECT_NEAR(*ours.images_per_second, 1280, 1e-3);
  EXPECT_DOUBLE_EQ(*ours.data_share, 0.002);
  EXPECT_FALSE(ours.ratio);
  const char* const variants[] = {"torch, contiguous, 0 workers", "torch, contiguous, 1 workers",
                                  "torch, channels_last, 0 workers",
                                  "torch, channels_last, 1 workers"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(report.rows[1 + i].system, variants[i]);
    EXPECT_NEAR(*report.rows[1 + i].images_per_second, 640, 1e-3);
    EXPECT_NEAR(*report.rows[1 + i].ratio, 0.5, 1e-6);
    EXPECT_DOUBLE_EQ(*report.rows[1 + i].data_share, 0.075);
    EXPECT_EQ(report.rows[6 + i].system, variants[i]);
    EXPECT_NEAR(*report.rows[6 + i].ratio, 0.001, 0.0006);  // 1 to 2 s over 1999 to 2000 s
  }
  EXPECT_EQ(report.rows[5].work,
            "launch to first step, resnet20, batch 64, 2 instances x 1 thread");
  EXPECT_FALSE(report.rows[5].images_per_second);
}

TEST_F(BenchTrainTorchTest, StartsBothSidesAlikeAndInTurn) {
  measure({.works = {TrainWork::Train}, .instances = 3, .batch_size = 8, .rounds = 1});
  const auto text = calls();
  EXPECT_THAT(text, AllOf(HasSubstr("train --num-instances 3 --replicas 3 --threads-per-device 1 "
                                    "--model resnet20 --dataset "),
                          HasSubstr("/train.pack --batch-size 8 --augment standard --optimizer sgd "
                                    "--lr 0.1 --momentum 0.9 --epochs 1 --limit-train 1200 "
                                    "--limit-test 24 --eval-every 0 --summary "),
                          HasSubstr("run -q --num-instances 3 --threads-per-device 1 --tag-output "
                                    "never --only-output-from-instance 0 -- /bin/python3 "
                                    "/libexec/torch_train.py --job ")));
  std::string order;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) order += text[at];
  EXPECT_EQ(order, "trrrrtrrrr");
}

TEST_F(BenchTrainTorchTest, ComparesReducingAndUpdating) {
  const auto report = measure({.works = {TrainWork::Update}, .rounds = 2});
  EXPECT_EQ(report.to_table(),
            "work                                                 system    median    p99        "
            "lockstep / peer\n"
            "reduce + SGD update, 25.6 M parameters, 2 instances  lockstep  20.00 ms  30.00 ms\n"
            "reduce + SGD update, 25.6 M parameters, 2 instances  torch     80.00 ms  120.00 ms  "
            "0.25\n"
            "reduce + SGD update, 25.6 M parameters, 4 instances  lockstep  20.00 ms  30.00 ms\n"
            "reduce + SGD update, 25.6 M parameters, 4 instances  torch     80.00 ms  120.00 ms  "
            "0.25\n");
  EXPECT_EQ(report.rows[0].timing.rounds, 6);
  EXPECT_THAT(calls(),
              AllOf(HasSubstr("run -q --num-instances 4 --threads-per-device 1 --tag-output never "
                              "--only-output-from-instance 0 -- /bin/lockstep-bench update-worker "
                              "resnet50 10\n"),
                    HasSubstr("-- /bin/python3 /libexec/torch_train.py --update --rounds 10\n")));
}

TEST(PythonPeerTest, SaysThatItsScriptIsNotHere) {
  expect_error(
      [] {
        find_python_peer("bench train: --against torch", "no.py",
                         topology::Environment::of_this_process());
      },
      ErrorKind::Unavailable, "bench train: --against torch: expected the script ");
}

TEST_F(BenchTrainTorchTest, KnowsItsWorksByName) {
  for (const auto work : kTrainWorks) {
    EXPECT_EQ(parse_train_work("bench train: --work", std::string(name_of(work))), work);
  }
  expect_error([] { parse_train_work("bench train: --work", "updates"); }, ErrorKind::Options,
               "bench train: --work: expected one of train, update, found 'updates'\n"
               "--work update");
}

}  // namespace
}  // namespace lockstep::bench
