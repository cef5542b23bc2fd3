#include "lockstep/checkpoint/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/checkpoint/find_checkpoint.h"
#include "tests/checkpoint/made_content.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::holds;
using ::testing::IsEmpty;
using testing::made_content;
using testing::ScratchFolder;
using testing::step_name;
using From = Resume::From;

Content content_of(int step, const std::string& job = "") {
  auto content = made_content(step);
  content.manifest.job = job;
  content.manifest.options.emplace_back("seed", std::to_string(100 + step));
  return content;
}

class ResumeTest : public ::testing::Test {
 protected:
  void write(int step, const std::string& job = "") const {
    CheckpointFolder(folder_, {.last = 100}).write(content_of(step, job));
  }
  fs::path step(int number) const { return folder_ / step_name(number); }

  std::optional<Checkpoint> find(const Resume& resume) { return find(resume, folder_); }
  std::optional<Checkpoint> find(const Resume& resume, const fs::path& folder) {
    return find_checkpoint(resume, folder, on_damaged_);
  }
  std::optional<Checkpoint> find_of(std::string_view job) {
    return find_checkpoint_of_job(job, folder_, on_damaged_);
  }
  std::optional<std::string> seed_of(const Resume& resume) const {
    return option_of_checkpoint(resume, folder_, "seed");
  }

  ScratchFolder scratch_;
  fs::path folder_ = fs::path(scratch_.path()) / "own";
  std::vector<fs::path> damaged_;
  std::string reasons_;
  OnDamaged on_damaged_ = [this](const fs::path& path, const std::string& why) {
    damaged_.push_back(path);
    reasons_ += why + "\n";
  };
};

TEST_F(ResumeTest, IsReadFromItsText) {
  EXPECT_EQ(parse_resume(""), (Resume{From::Newest}));
  EXPECT_EQ(parse_resume("newest"), (Resume{From::Newest}));
  EXPECT_EQ(parse_resume("auto"), (Resume{From::NewestIfAny}));
  EXPECT_EQ(parse_resume("./auto"), (Resume{From::Path, "./auto"}));
  EXPECT_EQ(parse_resume("a/step-000000000001"), (Resume{From::Path, "a/step-000000000001"}));
}

TEST_F(ResumeTest, FindsNothingWhereATrainingIsToBegin) {
  write(1);
  EXPECT_FALSE(find({From::Nothing}));
  EXPECT_FALSE(seed_of({From::Nothing}));
  EXPECT_FALSE(find({From::NewestIfAny}, folder_ / "none"));
}

TEST_F(ResumeTest, FindsTheNewestThatIsWhole) {
  for (const int number : {1, 2, 3}) write(number);
  fs::remove(step(3) / kStateName);
  const Resume path{From::Path, folder_};
  for (const auto& resume : {Resume{From::Newest}, Resume{From::NewestIfAny}, path}) {
    damaged_.clear();
    const auto found = find(resume, resume == path ? fs::path("/nowhere") : folder_);
    ASSERT_TRUE(found);
    EXPECT_TRUE(holds(*found, content_of(2)));
    EXPECT_THAT(damaged_, ElementsAre(step(3)));
  }
  EXPECT_THAT(reasons_, HasSubstr("expected a file 'state.safetensors', found none"));
}

TEST_F(ResumeTest, FindsTheOneThatIsNamed) {
  for (const int number : {1, 2, 3}) write(number);
  const auto found = find({From::Path, step(1)}, "/nowhere");
  ASSERT_TRUE(found);
  EXPECT_TRUE(holds(*found, content_of(1)));
  fs::remove(step(1) / kStateName);
  expect_error(
      [&] {
        find({From::Path, step(1)});
      },
      ErrorKind::Data, step(1).string() + ": expected a file 'state.safetensors', found none");
  EXPECT_THAT(damaged_, IsEmpty());
}

TEST_F(ResumeTest, SaysThatThereIsNone) {
  expect_error([&] { find({From::Newest}); }, ErrorKind::Options,
               "resume: expected a checkpoint in " + folder_.string() +
                   ", found none\n--resume=auto starts a new run if there is none");
  expect_error(
      [&] {
        find({From::Path, scratch_.path()});
      },
      ErrorKind::Options, "resume: expected a checkpoint in " + scratch_.path() + ", found none");
}

TEST_F(ResumeTest, NamesAPathAtWhichThereIsNothing) {
  write(1);
  for (const auto& path : {folder_ / "typo", step(2), step(1) / kManifestName / "below"}) {
    expect_error(
        [&] {
          find({From::Path, path});
        },
        ErrorKind::Options,
        "resume: expected a checkpoint or a folder of them, found nothing at " + path.string() +
            "\n--resume without a path takes the newest of --checkpoint-dir");
  }
}

TEST_F(ResumeTest, SaysThatAllAreDamaged) {
  for (const int number : {1, 2}) write(number);
  for (const int number : {1, 2}) fs::remove(step(number) / kManifestName);
  for (const auto from : {From::Newest, From::NewestIfAny}) {
    damaged_.clear();
    expect_error([&] { find({from}); }, ErrorKind::Data,
                 "resume: expected a whole checkpoint in " + folder_.string() +
                     ", found 2 that are damaged\n--checkpoint-dir with another folder");
    EXPECT_THAT(damaged_, ElementsAre(step(2), step(1)));
  }
}

TEST_F(ResumeTest, OpensACheckpointForReading) {
  for (const int number : {1, 2, 3}) write(number);
  EXPECT_TRUE(holds(open_checkpoint("eval", step(1), on_damaged_), content_of(1)));
  EXPECT_TRUE(holds(open_checkpoint("eval", folder_, on_damaged_), content_of(3)));
  EXPECT_THAT(damaged_, IsEmpty());
  fs::remove(step(3) / kWeightsName);
  EXPECT_TRUE(holds(open_checkpoint("eval", folder_, on_damaged_), content_of(2)));
  EXPECT_THAT(damaged_, ElementsAre(step(3)));
}

TEST_F(ResumeTest, SaysThatThereIsNoCheckpointToRead) {
  const auto open = [&](const fs::path& path) { open_checkpoint("eval", path, on_damaged_); };
  expect_error([&] { open(folder_ / "typo"); }, ErrorKind::Options,
               "eval: expected a checkpoint or a folder of checkpoints, found nothing at " +
                   (folder_ / "typo").string() +
                   "\nname the folder that was --checkpoint-dir of the training");
  expect_error([&] { open(scratch_.path()); }, ErrorKind::Options,
               "eval: expected a checkpoint in " + scratch_.path() + ", found none");
  write(1);
  fs::remove(step(1) / kManifestName);
  expect_error(
      [&] { open(folder_); }, ErrorKind::Data,
      "eval: expected a whole checkpoint in " + folder_.string() + ", found 1 that is damaged");
}

TEST_F(ResumeTest, FindsTheNewestOfAJob) {
  write(1, "a");
  write(2, "a");
  write(3, "b");
  write(4);
  const auto found = find_of("a");
  ASSERT_TRUE(found);
  EXPECT_TRUE(holds(*found, content_of(2, "a")));
  EXPECT_EQ(find_of("b")->manifest().position.step, 3);
  EXPECT_FALSE(find_of("c"));
  EXPECT_FALSE(find_of(""));
  EXPECT_THAT(damaged_, IsEmpty());
  EXPECT_FALSE(find_checkpoint_of_job("a", folder_ / "none", on_damaged_));
}

TEST_F(ResumeTest, TellsOfDamagedOnesThatMayBeOfTheJob) {
  for (const int number : {1, 2, 3}) write(number, "a");
  write(4, "b");
  write(5, "b");
  write(6, "a");
  fs::remove(step(1) / kStateName);  // older than the one that is found
  fs::resize_file(step(3) / kWeightsName, 5);
  fs::remove(step(4) / kStateName);  // of another job, and so nobody's business
  fs::resize_file(step(5) / kManifestName, 10);
  fs::remove(step(6) / kManifestName);
  const auto found = find_of("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path(), step(2));
  EXPECT_THAT(damaged_, ElementsAre(step(6), step(5), step(3)));
  EXPECT_THAT(reasons_, HasSubstr("manifest.json: No such file or directory"));
  EXPECT_THAT(reasons_, HasSubstr("bytes, found 5\n"));
  // What may be of a job does not make it one of this job.
  damaged_.clear();
  EXPECT_FALSE(find_of("c"));
  EXPECT_THAT(damaged_, ElementsAre(step(6), step(5)));
}

TEST_F(ResumeTest, KnowsAnOptionByTheManifestAlone) {
  for (const int number : {1, 2, 3}) write(number);
  fs::remove(step(3) / kStateName);
  EXPECT_EQ(seed_of({From::Newest}), "103");
  EXPECT_EQ(seed_of({From::NewestIfAny}), "103");
  EXPECT_EQ(seed_of({From::Path, step(1)}), "101");
  EXPECT_EQ(option_of_checkpoint({From::Path, folder_}, "/nowhere", "seed"), "103");
  EXPECT_FALSE(option_of_checkpoint({From::Newest}, folder_, "none"));
  EXPECT_FALSE(seed_of({From::Path, folder_ / "none"}));
  fs::resize_file(step(3) / kManifestName, 10);
  EXPECT_EQ(seed_of({From::Newest}), "102");
  EXPECT_FALSE(seed_of({From::Path, step(3)}));
}

TEST_F(ResumeTest, RefusesAFolderThatIsInUse) {
  check_is_unused("checkpoints", folder_);
  fs::create_directories(folder_ / "notes");
  check_is_unused("checkpoints", folder_);
  for (const int number : {1, 2}) write(number);
  fs::remove(step(2) / kManifestName);
  expect_error([&] { check_is_unused("checkpoints", folder_); }, ErrorKind::Options,
               "checkpoints: expected a folder without checkpoints, found 2 in " +
                   folder_.string() + "\n--resume to continue from the newest, or another");
}

}  // namespace
}  // namespace lockstep::checkpoint
