// What a crash at any system call of a writer leaves behind: see tests/support/crash_at.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "tests/checkpoint/made_content.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::holds;
using testing::made_content;
using testing::names_in;
using testing::ScratchFolder;
using testing::step_name;

/// Runs the worker in `folder` with these variables for the library.
testing::Finished run_worker(const std::string& folder, const std::vector<std::string>& arguments,
                             std::map<std::string, std::string> variables) {
  std::vector<std::string> command{CHECKPOINT_WORKER_BINARY, folder};
  command.insert(command.end(), arguments.begin(), arguments.end());
  variables["LD_PRELOAD"] = CRASH_AT_LIBRARY;
  variables["CRASH_AT_FOLDER"] = folder;
  // A sanitizer wants to be the first library.
  variables["ASAN_OPTIONS"] = "verify_asan_link_order=0";
  return testing::run(std::move(command), {.environment = std::move(variables)});
}

struct Case {
  std::string name;
  std::vector<int> before;             ///< the steps that are there
  std::vector<std::string> arguments;  ///< of the worker
  Content old_content;                 ///< the newest before
  Content new_content;                 ///< and after
  std::vector<int> after;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

class CrashTest : public ::testing::TestWithParam<Case> {};

/// What is there before, to be copied: writing it each time would wait for the disk.
class Before {
 public:
  explicit Before(const std::vector<int>& steps) {
    CheckpointFolder writer(scratch_.path(), {.last = 100});
    for (const int step : steps) writer.write(made_content(step));
  }

  void copy_to(const std::string& folder) const {
    fs::copy(scratch_.path(), folder, fs::copy_options::recursive);
  }

 private:
  ScratchFolder scratch_;
};

std::vector<std::string> names_of_steps(const std::vector<int>& numbers) {
  std::vector<std::string> names;
  for (const int number : numbers) names.push_back(step_name(number));
  return names;
}

void expect_whole(const std::string& folder, const Case& one) {
  std::string damaged;
  const auto found = newest_checkpoint(folder, [&](const fs::path& path, const std::string& why) {
    damaged += path.string() + why;
  });
  EXPECT_EQ(damaged, "");
  EXPECT_TRUE(found ? holds(*found, one.old_content) || holds(*found, one.new_content)
                    : one.before.empty());
}

TEST_P(CrashTest, LeavesAWholeCheckpointAndAFolderThatWorksOn) {
  const auto& one = GetParam();
  const Before before(one.before);
  int calls = 1;
  for (;; ++calls) {
    SCOPED_TRACE(calls);
    const ScratchFolder scratch;
    before.copy_to(scratch.path());
    const auto ended =
        run_worker(scratch.path(), one.arguments, {{"CRASH_AT_CALL", std::to_string(calls)}});
    expect_whole(scratch.path(), one);
    if (ended.signal == 0) {
      ASSERT_EQ(ended.exit_code, 0) << ended.err;
      EXPECT_EQ(names_in(scratch.path()), names_of_steps(one.after));
      EXPECT_TRUE(holds(*newest_checkpoint(scratch.path(), nullptr), one.new_content));
      break;
    }
    ASSERT_EQ(ended.signal, SIGKILL) << ended.err;
    // Whoever comes next finds a whole one too, and is not in the way of itself.
    CheckpointFolder(scratch.path(), {});
    expect_whole(scratch.path(), one);
    for (const auto& name : names_in(scratch.path())) {
      EXPECT_THAT(name, ::testing::MatchesRegex("step-000000000..."));
    }
    EXPECT_EQ(run_worker(scratch.path(), {"1", "9:0"}, {}).exit_code, 0);
    EXPECT_EQ(names_in(scratch.path()), names_of_steps({9}));
    EXPECT_TRUE(holds(*newest_checkpoint(scratch.path(), nullptr), made_content(9)));
    if (HasFailure()) return;
  }
  EXPECT_GT(calls, 20);
}

INSTANTIATE_TEST_SUITE_P(
    Writers, CrashTest,
    ::testing::Values(
        Case{"WritingTheFirst", {}, {"2", "1:0"}, made_content(1), made_content(1), {1}},
        Case{"WritingANewOne", {1}, {"2", "2:0"}, made_content(1), made_content(2), {1, 2}},
        Case{"ReplacingTheOnlyOne", {1}, {"2", "1:5"}, made_content(1), made_content(1, 5), {1}},
        Case{"ReplacingTheNewest",
             {1, 2},
             {"2", "2:5"},
             made_content(2),
             made_content(2, 5),
             {1, 2}},
        Case{"RemovingOlderOnes", {1, 2, 3}, {"1", "4:0"}, made_content(3), made_content(4), {4}}),
    [](const auto& test) { return test.param.name; });

/// The calls of a worker that lives, one a line, with paths from its folder on.
std::vector<std::string> logged_calls(const Case& one) {
  const ScratchFolder scratch;
  const ScratchFolder logs;
  Before(one.before).copy_to(scratch.path());
  const auto ended =
      run_worker(scratch.path(), one.arguments, {{"CRASH_AT_LOG", logs.path() + "/log"}});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  std::vector<std::string> calls;
  std::istringstream lines(read_file(logs.path() + "/log"));
  for (std::string line; std::getline(lines, line);) {
    for (auto at = line.find(scratch.path()); at != std::string::npos;
         at = line.find(scratch.path())) {
      line.replace(at, scratch.path().size(), "DIR");
    }
    calls.push_back(line);
  }
  return calls;
}

using Calls = std::vector<std::string>;

/// Where the first call is that begins so and ends so.
Calls::const_iterator find_call(const Calls& calls, const std::string& begin,
                                const std::string& end) {
  const auto found = std::find_if(calls.begin(), calls.end(), [&](const std::string& call) {
    return call.starts_with(begin) && call.ends_with(end);
  });
  EXPECT_NE(found, calls.end()) << begin << " … " << end;
  return found;
}

TEST(CrashOrderTest, HasEachFileOnDiskBeforeTheNameAndTheNameBeforeAnythingGoes) {
  const auto calls = logged_calls({"", {1}, {"1", "2:0"}, made_content(1), made_content(2), {2}});
  const auto rename = find_call(calls, "rename DIR/.partial-", " DIR/" + step_name(2));
  for (const std::string name : {"weights.safetensors", "state.safetensors", "manifest.json"}) {
    const auto synced = find_call(calls, "fsync DIR/.partial-", name);
    EXPECT_LT(synced, rename) << name;
    const auto writes = std::count_if(calls.begin(), calls.end(), [&](const std::string& call) {
      return call.starts_with("write ") && call.ends_with(name);
    });
    const auto writes_before = std::count_if(calls.begin(), synced, [&](const std::string& call) {
      return call.starts_with("write ") && call.ends_with(name);
    });
    EXPECT_GT(writes, 0);
    EXPECT_EQ(writes, writes_before) << name;
  }
  // The folder's own names: after its last file was made.
  const auto partial = rename->substr(7, rename->find(' ', 7) - 7);
  const auto folder_synced = find_call(calls, "fsync " + partial, partial);
  EXPECT_GT(folder_synced, find_call(calls, "open " + partial, "manifest.json"));
  EXPECT_LT(folder_synced, rename);
  // Then the new name, before the old checkpoint loses its own, and that before its files go.
  const auto parent_synced = std::find(rename, calls.end(), "fsync DIR");
  const auto moved = find_call(calls, "rename DIR/" + step_name(1) + " DIR/.partial-", "");
  const auto removed = find_call(calls, "unlink ", "");
  EXPECT_LT(parent_synced, moved);
  EXPECT_LT(std::find(moved, calls.end(), "fsync DIR"), removed);
  EXPECT_LT(moved, removed);
}

TEST(CrashOrderTest, HasTheOldNameOnDiskBeforeTheNewOneTakesItsPlace) {
  const auto calls =
      logged_calls({"", {1}, {"1", "1:5"}, made_content(1), made_content(1, 5), {1}});
  const auto aside =
      find_call(calls, "rename DIR/" + step_name(1) + " ", "DIR/" + step_name(1) + ".replaced");
  const auto rename = find_call(calls, "rename DIR/.partial-", " DIR/" + step_name(1));
  const auto gone = std::find_if(rename, calls.end(), [](const std::string& call) {
    return call.starts_with("rename DIR/" + step_name(1) + ".replaced DIR/.partial-");
  });
  EXPECT_NE(gone, calls.end());
  EXPECT_LT(std::find(aside, calls.end(), "fsync DIR"), rename);
  EXPECT_LT(rename, std::find(rename, calls.end(), "fsync DIR"));
  EXPECT_LT(std::find(rename, calls.end(), "fsync DIR"), gone);
}

/// Every call of a kind that fails, from the k-th of all on, ends in an error or does no harm.
TEST(CrashRefusalTest, LeavesAWholeCheckpointWhereTheSystemRefuses) {
  const Case one{"", {1}, {"1", "1:5"}, made_content(1), made_content(1, 5), {1}};
  const Before before(one.before);
  const auto calls = static_cast<int>(logged_calls(one).size());
  for (const std::string call : {"mkdir", "open", "write", "fsync", "rename", "unlink"}) {
    int failures = 0;
    for (int k = 1; k <= calls; k += 2) {
      SCOPED_TRACE(call + " " + std::to_string(k));
      const ScratchFolder scratch;
      before.copy_to(scratch.path());
      const auto ended =
          run_worker(scratch.path(), one.arguments,
                     {{"CRASH_AT_CALL", std::to_string(k)}, {"CRASH_AT_REFUSE", call}});
      EXPECT_THAT(ended.exit_code, ::testing::AnyOf(0, exit_code(ErrorKind::Io))) << ended.err;
      if (ended.exit_code != 0) {
        ++failures;
        EXPECT_THAT(ended.err, ::testing::HasSubstr(scratch.path()));
      }
      expect_whole(scratch.path(), one);
    }
    EXPECT_EQ(failures > 0, call != "unlink") << call;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
