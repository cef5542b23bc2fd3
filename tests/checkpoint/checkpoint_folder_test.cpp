#include "lockstep/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "lockstep/base/file.h"
#include "lockstep/checkpoint/pruning.h"
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
using testing::names_in;
using testing::ScratchFolder;
using testing::step_name;

std::vector<std::string> steps(const std::vector<int>& numbers) {
  std::vector<std::string> names;
  for (const int number : numbers) names.push_back(step_name(number));
  return names;
}

Content with_metric(int step, double value, const std::string& metric = "acc") {
  auto content = made_content(step);
  content.manifest.metrics[metric] = value;
  return content;
}

TEST(CheckpointFolderTest, IsMadeWithThoseAboveIt) {
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path() + "/a/b/c/", {});
  EXPECT_EQ(folder.write(made_content(5)), scratch.path() + "/a/b/c/" + step_name(5));
  EXPECT_EQ(names_in(scratch.path() + "/a/b/c"), steps({5}));
}

TEST(CheckpointFolderTest, RefusesWhatCannotBeAFolder) {
  const ScratchFolder scratch;
  const auto file = scratch.write("file", "x");
  expect_error([&] { CheckpointFolder(file, {}); }, ErrorKind::Io, file + ": Not a directory");
  expect_error([&] { CheckpointFolder(file + "/a", {}); }, ErrorKind::Io, "/file/a: ");
  expect_error([&] { CheckpointFolder("", {}); }, ErrorKind::Io, "No such file or directory");
}

TEST(CheckpointFolderTest, RefusesAFolderInWhichNothingCanBeMade) {
  const ScratchFolder scratch;
  if (::geteuid() == 0) {
    // Root may write everywhere but here.
    expect_error([&] { CheckpointFolder("/proc/self/fd/checkpoints", {}); }, ErrorKind::Io,
                 "/proc/self/fd");
  } else {
    fs::permissions(scratch.path(), fs::perms::owner_read | fs::perms::owner_exec);
    expect_error([&] { CheckpointFolder(scratch.path(), {}); }, ErrorKind::Io, "Permission denied");
    fs::permissions(scratch.path(), fs::perms::owner_all);
  }
}

TEST(CheckpointFolderTest, KeepsASecondWriterOut) {
  const ScratchFolder scratch;
  auto folder = std::make_unique<CheckpointFolder>(scratch.path(), Keeping{});
  expect_error([&] { CheckpointFolder(scratch.path(), {}); }, ErrorKind::Unavailable,
               scratch.path() + ": another training writes checkpoints into this folder");
  const auto second = testing::run({CHECKPOINT_WORKER_BINARY, scratch.path(), "2", "1:0"});
  EXPECT_EQ(second.exit_code, exit_code(ErrorKind::Unavailable)) << second.err;
  auto moved = std::make_unique<CheckpointFolder>(std::move(*folder));
  folder.reset();
  expect_error([&] { CheckpointFolder(scratch.path(), {}); }, ErrorKind::Unavailable, "another");
  moved->write(made_content(1));
  moved.reset();
  CheckpointFolder(scratch.path(), {}).write(made_content(2));
  EXPECT_EQ(names_in(scratch.path()), steps({1, 2}));
}

TEST(CheckpointFolderTest, GoesOnWithoutALockWhereTheFileSystemHasNone) {
  const auto run_without_locks = [](const std::string& folder, int error) {
    return testing::run({CHECKPOINT_WORKER_BINARY, folder, "2", "1:0"},
                        {.environment = {{"LD_PRELOAD", CRASH_AT_LIBRARY},
                                         {"CRASH_AT_NO_LOCKS", std::to_string(error)},
                                         {"ASAN_OPTIONS", "verify_asan_link_order=0"}}});
  };
  for (const int error : {ENOSYS, EOPNOTSUPP, ENOTSUP, ENOLCK, EINVAL, EBADF}) {
    const ScratchFolder scratch;
    const auto ended = run_without_locks(scratch.path(), error);
    EXPECT_EQ(ended.exit_code, 0) << std::strerror(error) << ": " << ended.err;
    EXPECT_EQ(names_in(scratch.path()), steps({1}));
  }
  const ScratchFolder scratch;
  const auto ended = run_without_locks(scratch.path(), EIO);
  EXPECT_EQ(ended.exit_code, exit_code(ErrorKind::Io));
  EXPECT_THAT(ended.err, ::testing::HasSubstr("lock " + scratch.path() + ": Input/output error"));
}

TEST(CheckpointFolderTest, IsFreeAgainWhenItsProcessIsKilled) {
  const ScratchFolder scratch;
  testing::Subprocess holder(
      {"sh", "-c", "sleep 1000 | \"$0\" \"$1\" 2", CHECKPOINT_WORKER_BINARY, scratch.path()});
  ASSERT_TRUE(holder.wait_for("locked"));
  expect_error([&] { CheckpointFolder(scratch.path(), {}); }, ErrorKind::Unavailable, "another");
  holder.signal_group(SIGKILL);
  EXPECT_TRUE(testing::eventually(
      [&] {
        try {
          CheckpointFolder(scratch.path(), {});
          return true;
        } catch (const Error&) {
          return false;
        }
      },
      std::chrono::seconds(20)));
}

TEST(CheckpointFolderTest, RemovesWhatACrashLeft) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path();
  CheckpointFolder(path, {}).write(made_content(1));
  fs::create_directories(path / ".partial-step-000000000002-0badcafe/deeper");
  write_file(path / ".partial-step-000000000002-0badcafe/weights.safetensors", "half");
  scratch.write(".partial-notes", "a file of somebody else");
  fs::create_directory(path / "kept");
  CheckpointFolder(path, {});
  EXPECT_EQ(names_in(path), (std::vector<std::string>{".partial-notes", "kept", step_name(1)}));
}

TEST(CheckpointFolderTest, GivesAReplacedOneItsNameBack) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path();
  CheckpointFolder(path, {}).write(made_content(1));
  const auto replaced = path / (step_name(1) + ".replaced");
  // As after a crash between the two renames.
  fs::rename(path / step_name(1), replaced);
  const auto found = newest_checkpoint(path, nullptr);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path(), replaced);
  CheckpointFolder(path, {});
  EXPECT_EQ(names_in(path), steps({1}));
  // As after a crash behind both.
  fs::copy(path / step_name(1), replaced);
  EXPECT_EQ(newest_checkpoint(path, nullptr)->path(), path / step_name(1));
  CheckpointFolder(path, {});
  EXPECT_EQ(names_in(path), steps({1}));
}

TEST(CheckpointFolderTest, ReplacesOneOfTheSameStep) {
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path(), {});
  folder.write(made_content(1));
  const auto old = Checkpoint::open(folder.path() / step_name(1));
  folder.write(made_content(1, 1));
  EXPECT_EQ(names_in(scratch.path()), steps({1}));
  EXPECT_TRUE(holds(Checkpoint::open(folder.path() / step_name(1)), made_content(1, 1)));
  EXPECT_TRUE(holds(old, made_content(1)));  // whoever has it open keeps it
}

TEST(CheckpointFolderTest, ReplacesOneThoughAnOldOneIsInTheWay) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path();
  CheckpointFolder folder(path, {});
  folder.write(made_content(1));
  fs::copy(path / step_name(1), path / (step_name(1) + ".replaced"));
  folder.write(made_content(1, 1));
  EXPECT_EQ(names_in(path), steps({1}));
  EXPECT_TRUE(holds(Checkpoint::open(path / step_name(1)), made_content(1, 1)));
}

TEST(CheckpointFolderTest, KeepsTheLast) {
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path(), {.last = 3});
  for (const int step : {1, 2, 3, 10, 20}) folder.write(made_content(step));
  EXPECT_EQ(names_in(scratch.path()), steps({3, 10, 20}));
}

TEST(CheckpointFolderTest, KeepsAtLeastTheOneThatItWrote) {
  for (const int last : {1, 0, -1}) {
    const ScratchFolder scratch;
    CheckpointFolder folder(scratch.path(), {.last = last});
    for (const int step : {1, 2, 3}) folder.write(made_content(step));
    EXPECT_EQ(names_in(scratch.path()), steps({3}));
  }
}

TEST(CheckpointFolderTest, KeepsTheBestToo) {
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path(), {.last = 1});
  folder.write(with_metric(1, 0.5));
  folder.write(with_metric(2, 0.75));
  folder.write(made_content(3));
  EXPECT_EQ(names_in(scratch.path()), steps({2, 3}));
  folder.write(with_metric(4, 0.6));
  EXPECT_EQ(names_in(scratch.path()), steps({2, 4}));
  folder.write(with_metric(5, 0.75));  // of equal ones the newest
  EXPECT_EQ(names_in(scratch.path()), steps({5}));
  folder.write(with_metric(6, std::nan("")));
  EXPECT_EQ(names_in(scratch.path()), steps({5, 6}));
  folder.write(with_metric(7, 9, "top5"));
  EXPECT_EQ(names_in(scratch.path()), steps({5, 7}));
}

TEST(CheckpointFolderTest, KnowsTheBestValueOfAMetric) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path();
  EXPECT_EQ(best_metric(path / "none", "acc"), std::nullopt);
  CheckpointFolder folder(path, {.last = 10});
  folder.write(made_content(1));
  EXPECT_EQ(best_metric(path, "acc"), std::nullopt);
  folder.write(with_metric(2, std::nan("")));
  EXPECT_EQ(best_metric(path, "acc"), std::nullopt);
  folder.write(with_metric(3, -0.5));
  folder.write(with_metric(4, 0.25));
  folder.write(with_metric(5, std::nan("")));
  folder.write(with_metric(6, 0.125));
  folder.write(with_metric(7, 9, "top5"));
  EXPECT_EQ(best_metric(path, "acc"), 0.25);
  EXPECT_EQ(best_metric(path, "top5"), 9);
  fs::resize_file(path / step_name(4) / kManifestName, 10);
  EXPECT_EQ(best_metric(path, "acc"), 0.125);
  fs::remove(path / step_name(6) / kStateName);
  EXPECT_EQ(best_metric(path, "acc"), -0.5);
}

TEST(CheckpointFolderTest, KeepsTheBestByTheMetricThatIsAskedFor) {
  const ScratchFolder scratch;
  {
    CheckpointFolder folder(scratch.path(), {.last = 1, .best_metric = "-loss"});
    folder.write(with_metric(1, -0.5, "-loss"));
    folder.write(with_metric(2, -0.75, "-loss"));
    EXPECT_EQ(names_in(scratch.path()), steps({1, 2}));
  }
  CheckpointFolder folder(scratch.path(), {.last = 1, .best_metric = ""});
  folder.write(with_metric(3, 1, ""));
  folder.write(with_metric(4, 0, ""));
  EXPECT_EQ(names_in(scratch.path()), steps({4}));
}

TEST(CheckpointFolderTest, DoesNotCountDamagedOnesAmongTheLast) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path();
  CheckpointFolder folder(path, {.last = 10});
  for (const int step : {1, 2, 3, 4}) folder.write(with_metric(step, step));
  fs::remove(path / step_name(2) / kStateName);
  fs::resize_file(path / step_name(3) / kManifestName, 10);
  fs::remove_all(path / step_name(4));
  fs::create_directory(path / step_name(4));
  folder.write(with_metric(5, 0));
  EXPECT_EQ(names_in(path), steps({1, 5}));
}

TEST(CheckpointFolderTest, LeavesWhatComesAfterTheOneThatItWrote) {
  const ScratchFolder scratch;
  const fs::path path = scratch.path();
  CheckpointFolder folder(path, {.last = 10});
  for (const int step : {1, 2, 5, 6}) folder.write(made_content(step));
  fs::remove(path / step_name(6) / kStateName);
  folder = CheckpointFolder(path.string() + "/other", {});  // lets go of the lock
  CheckpointFolder again(path, {.last = 2});
  again.write(made_content(3));
  EXPECT_EQ(names_in(path), (std::vector<std::string>{"other", step_name(2), step_name(3),
                                                      step_name(5), step_name(6)}));
  again.write(made_content(6));
  EXPECT_EQ(names_in(path), (std::vector<std::string>{"other", step_name(5), step_name(6)}));
}

TEST(CheckpointFolderTest, WritesFilesOfAnySize) {
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path(), {.last = 1});
  // Around the megabyte that goes to disk at once, of which the header takes some.
  for (const std::size_t elements : {0u, 1u, 262'000u, 262'080u, 262'081u, 262'144u, 524'288u}) {
    for (std::size_t more = 0; more < 128; more += 31) {
      folder.write(made_content(1, 0, elements + more));
      EXPECT_TRUE(holds(Checkpoint::open(folder.path() / step_name(1)),
                        made_content(1, 0, elements + more)));
    }
  }
}

TEST(CheckpointFolderTest, RefusesTensorsThatAFileCannotHoldAndLeavesNothing) {
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path(), {});
  auto content = made_content(1);
  content.state.tensors[0].name = "__metadata__";
  expect_error([&] { folder.write(content); }, ErrorKind::Options, "cannot be called");
  content = made_content(1);
  content.weights.tensors[0].name = "\xff";
  expect_error([&] { folder.write(content); }, ErrorKind::Options, "names in UTF-8");
  content = made_content(1);
  content.manifest.position.step = -1;
  expect_error([&] { folder.write(content); }, ErrorKind::Data, "at least 0 as 'step'");
  EXPECT_TRUE(scratch.is_empty());
}

TEST(CheckpointFolderTest, NamesAFolderThatIsGone) {
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path() + "/a", {});
  fs::remove(scratch.path() + "/a");
  expect_error([&] { folder.write(made_content(1)); }, ErrorKind::Io, "/a/.partial-step-");
}

/// Files may not grow beyond this while this lives, as where a disk is full.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_ = SIG_DFL;
};

std::string error_of_write(CheckpointFolder& folder, const Content& content) {
  try {
    folder.write(content);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io);
    return error.what();
  }
}

TEST(CheckpointFolderTest, LeavesAllAsItWasWhereFilesCannotGrow) {
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path(), {.last = 1});
  folder.write(made_content(1));
  int failures = 0;
  // Through the header and the tensors of every file, and through the manifest.
  for (rlim_t most = 0;; most += 37) {
    std::string error;
    {
      const SmallFiles small(most);
      error = error_of_write(folder, made_content(1, 1));
    }
    if (error.empty()) break;
    ++failures;
    EXPECT_THAT(error, ::testing::MatchesRegex(
                           ".*/(weights.safetensors|state.safetensors|manifest.json): File too "
                           "large"));
    EXPECT_EQ(names_in(scratch.path()), steps({1}));
    EXPECT_TRUE(holds(Checkpoint::open(folder.path() / step_name(1)), made_content(1)));
  }
  EXPECT_GT(failures, 10);
  EXPECT_TRUE(holds(Checkpoint::open(folder.path() / step_name(1)), made_content(1, 1)));
}

TEST(CheckpointFolderTest, LeavesAllAsItWasWhereLargeFilesCannotGrow) {
  constexpr std::size_t kElements = 700'001;  // 2.8 MB: more than goes to disk at once
  const ScratchFolder scratch;
  CheckpointFolder folder(scratch.path(), {.last = 1});
  folder.write(made_content(1));
  for (const rlim_t most : {1'000'000u, 1u << 20, (1u << 20) + 512, 1'500'001u, 2'800'000u}) {
    std::string error;
    {
      const SmallFiles small(most);
      error = error_of_write(folder, made_content(1, 1, kElements));
    }
    EXPECT_THAT(error, ::testing::MatchesRegex(".*/weights.safetensors: File too large")) << most;
    EXPECT_EQ(names_in(scratch.path()), steps({1}));
  }
  EXPECT_TRUE(holds(Checkpoint::open(folder.path() / step_name(1)), made_content(1)));
  folder.write(made_content(1, 1, kElements));
  EXPECT_TRUE(holds(Checkpoint::open(folder.path() / step_name(1)), made_content(1, 1, kElements)));
}

/// A file system that is soon full, where one may be mounted.
class SmallDisk {
 public:
  SmallDisk() { is_mounted_ = ::mount("tmpfs", path().c_str(), "tmpfs", 0, "size=1m") == 0; }
  ~SmallDisk() {
    if (is_mounted_) ::umount2(path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool is_mounted() const { return is_mounted_; }
  const std::string& path() const { return scratch_.path(); }

 private:
  ScratchFolder scratch_;
  bool is_mounted_ = false;
};

TEST(CheckpointFolderTest, LeavesAllAsItWasWhereTheDiskIsFull) {
  const SmallDisk disk;
  if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << std::strerror(errno);
  constexpr std::size_t kElements = 40'000;  // 320 kB for each checkpoint
  CheckpointFolder folder(disk.path(), {.last = 10});
  std::string error;
  int step = 0;
  while (error.empty() && step < 10)
    error = error_of_write(folder, made_content(++step, 0, kElements));
  EXPECT_EQ(step, 4);
  EXPECT_THAT(error,
              ::testing::MatchesRegex(".*/(weights|state).safetensors: No space left on device"));
  EXPECT_EQ(names_in(disk.path()), steps({1, 2, 3}));
  std::vector<fs::path> damaged;
  const auto found = newest_checkpoint(
      disk.path(), [&](const fs::path& path, const auto&) { damaged.push_back(path); });
  ASSERT_TRUE(found);
  EXPECT_TRUE(holds(*found, made_content(3, 0, kElements)));
  EXPECT_TRUE(damaged.empty());
  // Replacing one takes room for both.
  EXPECT_THAT(error_of_write(folder, made_content(3, 1, kElements)),
              ::testing::HasSubstr("No space left on device"));
  EXPECT_EQ(names_in(disk.path()), steps({1, 2, 3}));
  // Room that somebody makes is used.
  fs::remove_all(fs::path(disk.path()) / step_name(1));
  folder.write(made_content(4, 0, kElements));
  EXPECT_EQ(names_in(disk.path()), steps({2, 3, 4}));
}

}  // namespace
}  // namespace lockstep::checkpoint
