#include "lockstep/launch/start/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

class RunDirectoryTest : public ::testing::Test {
 protected:
  topology::Environment environment() const {
    return topology::Environment({{"TMPDIR", scratch_.path()}});
  }
  testing::ScratchFolder scratch_;
};

TEST_F(RunDirectoryTest, IsForThisUserAloneAndGoneInTheEnd) {
  RunDirectory folder(environment());
  folder.create();
  struct stat info {};
  ASSERT_EQ(::stat(folder.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  EXPECT_EQ(folder.job_id().size(), 12U);
  fs::create_directories(folder.path() + "/deep/er");
  folder.remove();
  folder.remove();
  EXPECT_TRUE(scratch_.is_empty());
}

TEST_F(RunDirectoryTest, LiesInTheRuntimeDirectoryWhereThereIsOne) {
  RunDirectory folder(topology::Environment({{"XDG_RUNTIME_DIR", scratch_.path()}}));
  EXPECT_TRUE(scratch_.is_empty());
  folder.create();
  EXPECT_EQ(folder.path(), scratch_.path() + "/lockstep/" + folder.job_id());
  folder.remove();
}

TEST_F(RunDirectoryTest, LeavesTheRuntimeDirectoryOfAnotherUserAlone) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  const testing::ScratchFolder foreign;
  ASSERT_EQ(::chown(foreign.path().c_str(), 65534, 65534), 0);
  const RunDirectory folder(
      topology::Environment({{"XDG_RUNTIME_DIR", foreign.path()}, {"TMPDIR", scratch_.path()}}));
  EXPECT_TRUE(folder.path().starts_with(scratch_.path()));
}

TEST_F(RunDirectoryTest, RemovesWhatADeadJobLeftAndNothingOfALivingOne) {
  RunDirectory living(environment());
  living.create();
  const auto parent = fs::path(living.path()).parent_path();
  fs::create_directories(parent / "0123456789ab" / "stuff");
  RunDirectory next(environment());
  next.create();
  EXPECT_FALSE(fs::exists(parent / "0123456789ab"));
  EXPECT_TRUE(fs::exists(living.path()));
  EXPECT_TRUE(fs::exists(next.path()));
  living.remove();
  next.remove();
}

TEST_F(RunDirectoryTest, IsFoundWhateverWasSetWhenTheJobWasStarted) {
  const auto in_temporary = [](const std::string& folder) {
    return folder + "/lockstep-" + std::to_string(::getuid());
  };
  const auto parents = run_directory_parents(topology::Environment(
      {{"XDG_RUNTIME_DIR", scratch_.path()}, {"TMPDIR", scratch_.path() + "/temporary"}}));
  EXPECT_EQ(parents,
            (std::vector{scratch_.path() + "/lockstep",
                         "/run/user/" + std::to_string(::getuid()) + "/lockstep",
                         in_temporary(scratch_.path() + "/temporary"), in_temporary("/tmp")}));
  EXPECT_EQ(run_directory_parents(topology::Environment()).size(), 2U);
}

TEST_F(RunDirectoryTest, TellsWhetherAJobHasLeftItsFolder) {
  RunDirectory living(environment());
  living.create();
  const auto parent = fs::path(living.path()).parent_path().string();
  EXPECT_FALSE(remove_if_abandoned(living.path()));
  EXPECT_FALSE(remove_if_abandoned(parent + "/0123456789ab"));  // not there
  fs::create_directory(parent + "/0123456789ab");
  fs::create_directory(parent + "/letters");
  EXPECT_TRUE(remove_if_abandoned(parent + "/0123456789ab"));
  EXPECT_FALSE(remove_if_abandoned(parent + "/letters"));
  EXPECT_TRUE(fs::exists(parent + "/letters"));
  EXPECT_FALSE(fs::exists(parent + "/0123456789ab"));
  living.remove();
}

TEST_F(RunDirectoryTest, RefusesAParentThatOthersCanEnter) {
  const auto parent = scratch_.path() + "/lockstep-" + std::to_string(::getuid());
  fs::create_directory(parent);
  fs::permissions(parent, fs::perms::all);
  try {
    RunDirectory(environment()).create();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("is not a folder that only user"));
  }
}

TEST_F(RunDirectoryTest, IsMadeAndRemovedByManyJobsAtOnce) {
  std::vector<std::thread> jobs;
  for (int i = 0; i < 8; ++i) {
    jobs.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        RunDirectory folder(environment());
        folder.create();
        EXPECT_TRUE(fs::exists(folder.path()));
        folder.remove();
      }
    });
  }
  for (auto& job : jobs) job.join();
  EXPECT_TRUE(scratch_.is_empty());
}

}  // namespace
}  // namespace lockstep::launch
