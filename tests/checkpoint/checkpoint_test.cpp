#include "lockstep/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "lockstep/base/file.h"
#include "lockstep/weights/digest.h"
#include "tests/checkpoint/made_content.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::holds;
using testing::made_content;
using testing::ScratchFolder;
using testing::step_name;

/// A folder with checkpoints of these steps.
class Made {
 public:
  explicit Made(const std::vector<int>& steps) {
    CheckpointFolder folder(path(), {.last = 100});
    for (const int step : steps) folder.write(made_content(step));
  }

  const std::string& path() const { return scratch_.path(); }
  fs::path step(int number) const { return fs::path(path()) / step_name(number); }

 private:
  ScratchFolder scratch_;
};

void expect_damaged(const fs::path& folder, const std::string& message) {
  expect_error([&] { Checkpoint::open(folder); }, ErrorKind::Data, message);
}

TEST(CheckpointTest, HoldsWhatWasWritten) {
  const Made made({7});
  const auto content = made_content(7);
  const auto found = Checkpoint::open(made.step(7));
  EXPECT_TRUE(holds(found, content));
  EXPECT_FALSE(holds(found, made_content(7, 1)));
  EXPECT_EQ(found.path(), made.step(7));
  EXPECT_EQ(found.manifest().weights, weights::digest_of(content.weights));
  EXPECT_EQ(found.weights().digest(), found.manifest().weights);
  EXPECT_EQ(found.weights().find("head.weight"), found.weights().find("fc.weight"));
  EXPECT_EQ(found.state().metadata().at("progress"), "{\"loss\": 0.5}");
  EXPECT_THAT(found.manifest().written, ::testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_EQ(
      testing::names_in(made.step(7)),
      (std::vector<std::string>{"manifest.json", "state.safetensors", "weights.safetensors"}));
}

TEST(CheckpointTest, HasWeightsThatAnyReaderOfWeightFilesReads) {
  const Made made({7});
  const auto file = weights::read_weights(made.step(7) / kWeightsName);
  EXPECT_EQ(file.digest(), weights::digest_of(made_content(7).weights));
}

TEST(CheckpointTest, RefusesWhatIsNotThere) {
  const Made made({7});
  expect_error([&] { Checkpoint::open(made.path() + "/no"); }, ErrorKind::Io,
               made.path() + "/no: No such file or directory");
  for (const std::string name : {"manifest.json", "state.safetensors", "weights.safetensors"}) {
    const Made other({7});
    fs::remove(other.step(7) / name);
    expect_damaged(other.step(7),
                   other.step(7).string() + ": expected a file '" + name + "', found none");
  }
}

TEST(CheckpointTest, RefusesWhatIsTooMuch) {
  const Made made({7});
  write_file(made.step(7) / "notes", "x");
  expect_damaged(made.step(7), "expected the files of its manifest, found 'notes' too");
  fs::remove(made.step(7) / "notes");
  fs::create_directory(made.step(7) / "more");
  expect_damaged(made.step(7), "expected files alone, found 'more'");
}

TEST(CheckpointTest, RefusesFilesOfAnotherSize) {
  const Made made({7});
  for (const auto name : {kWeightsName, kStateName}) {
    const auto path = made.step(7) / name;
    const auto size = fs::file_size(path);
    for (const auto other : {size - 1, size + 1, std::uintmax_t{0}}) {
      const auto content = read_file(path);
      fs::resize_file(path, other);
      expect_damaged(made.step(7), path.string() + ": expected " + std::to_string(size) +
                                       " bytes, found " + std::to_string(other));
      write_file(path, content);
    }
  }
  EXPECT_TRUE(holds(Checkpoint::open(made.step(7)), made_content(7)));
  fs::resize_file(made.step(7) / kManifestName, (16 << 20) + 1);
  expect_damaged(made.step(7), "expected at most 16777216 bytes, found 16777217");
}

TEST(CheckpointTest, RefusesTheFilesOfAnotherCheckpoint) {
  const Made made({7, 8});
  fs::copy_file(made.step(8) / kStateName, made.step(7) / kStateName,
                fs::copy_options::overwrite_existing);
  expect_damaged(made.step(7), (made.step(7) / kStateName).string() + ": expected the checksum ");
}

TEST(CheckpointTest, RefusesManifestsThatDoNotFit) {
  const Made made({7});
  auto manifest = Checkpoint::open(made.step(7)).manifest();
  const auto path = made.step(7) / kManifestName;
  const auto digest = manifest.weights;
  manifest.weights = "0000000000000000";
  write_file(path, to_json(manifest));
  expect_damaged(made.step(7),
                 "expected weights with the digest 0000000000000000, found " + digest);
  manifest.files.push_back({"more", 0, std::string(32, '0')});
  write_file(path, to_json(manifest));
  expect_damaged(made.step(7), path.string() +
                                   ": expected weights.safetensors and state.safetensors, found "
                                   "'more'");
  manifest.files.clear();
  write_file(path, to_json(manifest));
  expect_damaged(made.step(7),
                 path.string() + ": expected a file 'weights.safetensors', found none");
}

TEST(CheckpointTest, IsListedByItsNameTheOldestFirst) {
  const Made made({10, 9, 100});
  write_file(made.path() + "/" + step_name(11), "a file");
  for (const auto* const name :
       {"step-5", "step-", "step--00000000001", "step-0000000000011", "best",
        ".partial-step-000000000012-00000000", "step-00000000001x"}) {
    fs::create_directory(made.path() + "/" + name);
  }
  fs::create_directory(made.path() + "/step-1000000000000");
  EXPECT_EQ(list_checkpoints(made.path()),
            (std::vector<fs::path>{made.step(9), made.step(10), made.step(100),
                                   made.path() + "/step-1000000000000"}));
  EXPECT_TRUE(list_checkpoints(made.path() + "/none").empty());
  expect_error([&] { list_checkpoints(made.path() + "/" + step_name(11)); }, ErrorKind::Io,
               "Not a directory");
}

TEST(CheckpointTest, IsFoundThoughNewerOnesAreDamaged) {
  const Made made({1, 2, 3, 4});
  fs::remove(made.step(4) / kManifestName);
  fs::resize_file(made.step(3) / kStateName, 5);
  std::vector<fs::path> damaged;
  std::string reasons;
  const auto found = newest_checkpoint(made.path(), [&](const fs::path& path, const auto& why) {
    damaged.push_back(path);
    reasons += why + "\n";
  });
  ASSERT_TRUE(found);
  EXPECT_TRUE(holds(*found, made_content(2)));
  EXPECT_EQ(damaged, (std::vector<fs::path>{made.step(4), made.step(3)}));
  EXPECT_THAT(reasons, ::testing::HasSubstr("expected a file 'manifest.json', found none"));
  EXPECT_THAT(reasons, ::testing::HasSubstr("bytes, found 5"));
  EXPECT_TRUE(newest_checkpoint(made.path(), nullptr));
}

TEST(CheckpointTest, IsNotFoundWhereThereIsNoneThatIsWhole) {
  const Made made({1});
  EXPECT_FALSE(newest_checkpoint(made.path() + "/none", nullptr));
  fs::remove(made.step(1) / kStateName);
  int damaged = 0;
  EXPECT_FALSE(newest_checkpoint(made.path(), [&](const auto&, const auto&) { ++damaged; }));
  EXPECT_EQ(damaged, 1);
}

TEST(CheckpointTest, IsLookedForAgainWhereOthersWereReplacedMeanwhile) {
  const Made made({1, 2, 3});
  fs::remove(made.step(3) / kStateName);
  // While 3 is told about, 2 is replaced by 4, as a training does it.
  std::vector<fs::path> damaged;
  const auto found = newest_checkpoint(made.path(), [&](const fs::path& path, const auto&) {
    damaged.push_back(path);
    CheckpointFolder folder(made.path(), {.last = 1});
    folder.write(made_content(4));
  });
  ASSERT_TRUE(found);
  EXPECT_TRUE(holds(*found, made_content(4)));
  EXPECT_EQ(damaged, (std::vector<fs::path>{made.step(3)}));
}

/// Flips one bit of a file in place while this lives.
class Flipped {
 public:
  Flipped(const fs::path& path, std::size_t bit)
      : file_(path, std::ios::in | std::ios::out | std::ios::binary), bit_(bit) {
    flip();
  }
  ~Flipped() { flip(); }
  Flipped(const Flipped&) = delete;
  Flipped& operator=(const Flipped&) = delete;

 private:
  void flip() {
    file_.seekg(static_cast<std::streamoff>(bit_ / 8));
    const int byte = file_.get();
    file_.seekp(static_cast<std::streamoff>(bit_ / 8));
    file_.put(static_cast<char>(byte ^ (1 << bit_ % 8)));
    file_.flush();
  }

  std::fstream file_;
  std::size_t bit_;
};

void expect_noticed(const Made& made, const fs::path& path, std::size_t bit) {
  const Flipped flipped(path, bit);
  expect_damaged(made.step(2), path.string() + ": expected ");
  std::vector<fs::path> damaged;
  const auto found = newest_checkpoint(
      made.path(), [&](const fs::path& folder, const auto&) { damaged.push_back(folder); });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path(), made.step(1));
  EXPECT_EQ(damaged, (std::vector<fs::path>{made.step(2)}));
}

TEST(CheckpointTest, NoticesAnyBitThatFlips) {
  const Made made({1, 2});
  std::mt19937 random(20261115);
  for (const auto name : {kWeightsName, kStateName, kManifestName}) {
    const auto path = made.step(2) / name;
    const auto size = fs::file_size(path);
    for (int i = 0; i < 300; ++i) expect_noticed(made, path, random() % (8 * size));
  }
  const auto manifest = made.step(2) / kManifestName;
  for (std::size_t i = 0; i < fs::file_size(manifest); ++i) {
    expect_noticed(made, manifest, 8 * i + random() % 8);
  }
  EXPECT_TRUE(holds(Checkpoint::open(made.step(2)), made_content(2)));
}

TEST(CheckpointTest, IsReadByPythonWithoutAnyLibrary) {
  if (testing::run({"python3", "-c", "import json, struct"}).exit_code != 0) {
    GTEST_SKIP() << "no python3 here";
  }
  const ScratchFolder scratch;
  const float values[]{1.5f, -0.25f};
  Content content;
  content.manifest.position = {500, 3, 20, 2};
  content.manifest.options = {{"model", "resnet20"}, {"lr", "0.05"}};
  content.manifest.metrics = {{"acc", std::nan("")}, {"loss", 0.125}};
  content.manifest.reason = "\u20ac";
  testing::add_tensor(content.weights, "fc.bias", weights::ElementType::F32, {2, 1},
                      {reinterpret_cast<const char*>(values), sizeof values});
  testing::add_tensor(content.state, "seen", weights::ElementType::I64, {},
                      std::string_view("\x01\x02\0\0\0\0\0\x80", 8));
  const auto path = CheckpointFolder(scratch.path(), {}).write(content);
  const auto read = testing::run({"python3", READ_CHECKPOINT_SCRIPT, path.string()},
                                 {.environment = {{"PYTHONIOENCODING", "utf-8"}}});
  EXPECT_EQ(read.err, "");
  EXPECT_EQ(read.out,
            "500 0.05 ['model', 'lr'] nan 0.125 \u20ac\n"
            "weights.safetensors fc.bias F32 [2, 1] (1.5, -0.25)\n"
            "state.safetensors seen I64 [] 0102000000000080\n");
}

}  // namespace
}  // namespace lockstep::checkpoint
