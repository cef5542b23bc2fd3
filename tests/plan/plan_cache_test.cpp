#include "lockstep/plan/plan_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/fnv.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::plan {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using lockstep::testing::ScratchFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PlanKey key_of(const std::string& model) {
  return {{{"model", model}, {"batch_size", "8"}, {"version", "1.2"}}};
}

Plan plan_of(const std::string& model) {
  Plan plan{.model = model, .batch_size = 8};
  plan.profile.blocks = {{.name = "stem", .forward_s = 1.0 / 3}};
  plan.stages = {{.first_block = 0, .num_blocks = 1}};
  return plan;
}

/// A cache whose words are kept.
class Cache {
 public:
  explicit Cache(const fs::path& folder, PlanCache::Settings settings = {})
      : cache_(folder, with_words(std::move(settings))) {}

  /// The plan of this model; `makes()` counts how often it had to be made.
  PlanCache::Found get(const std::string& model) { return get(key_of(model), model); }
  PlanCache::Found get(const PlanKey& key, const std::string& model) {
    return cache_.get(key, [&] {
      ++makes_;
      return plan_of(model);
    });
  }

  const PlanCache& operator*() const { return cache_; }
  const PlanCache* operator->() const { return &cache_; }
  fs::path path(const std::string& model) const { return cache_.path_of(key_of(model)); }
  fs::path lock(const std::string& model) const { return path(model).replace_extension(".lock"); }
  int makes() const { return makes_; }
  std::vector<std::string> words() const {
    const std::lock_guard lock(mutex_);
    return words_;
  }

 private:
  PlanCache::Settings with_words(PlanCache::Settings settings) {
    settings.tell = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      words_.push_back(text);
    };
    return settings;
  }

  std::atomic<int> makes_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> words_;
  PlanCache cache_;
};

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void set_age(const fs::path& path, std::chrono::seconds age) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

/// Ends with a failure of the test where it takes too long.
void wait_until(const std::function<bool()>& condition) {
  const auto start = std::chrono::steady_clock::now();
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now() - start, 30s) << "it did not happen";
    std::this_thread::sleep_for(1ms);
  }
}

/// A process that does this and nothing else. It is gone with this object.
class Child {
 public:
  explicit Child(const std::function<void()>& action) : process_(::fork()) {
    if (process_ != 0) return;
    try {
      action();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
  }

  pid_t id() const { return process_; }
  void signal(int number) const { ::kill(process_, number); }
  /// Its exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void wait_until_stopped() const {
    int status = 0;
    ::waitpid(process_, &status, WUNTRACED);
    ASSERT_TRUE(WIFSTOPPED(status));
  }

 private:
  pid_t process_;
};

/// A child that holds the lock of this model and never finishes its plan.
std::unique_ptr<Child> holder_of(const fs::path& folder, const std::string& model) {
  const auto is_making = folder / "is_making";
  auto child = std::make_unique<Child>([&] {
    Cache cache(folder);
    cache->get(key_of(model), [&]() -> Plan {
      write_file(is_making.string(), "");
      while (true) ::pause();
    });
  });
  wait_until([&] { return fs::exists(is_making); });
  fs::remove(is_making);
  return child;
}

TEST(PlanKeyTest, TheDigestIsSixteenDigitsAndStaysTheSame) {
  EXPECT_EQ(PlanKey{}.digest(), "cbf29ce484222325");
  EXPECT_EQ(key_of("a").digest(), key_of("a").digest());
  EXPECT_EQ(key_of("a").digest().size(), 16);
  EXPECT_EQ(key_of("a").digest().find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(PlanKeyTest, DifferentFactsHaveDifferentDigests) {
  const std::vector<PlanKey> keys{{},
                                  {{{"", ""}}},
                                  {{{"ab", "c"}}},
                                  {{{"a", "bc"}}},
                                  {{{"a", "b"}, {"c", ""}}},
                                  {{{"a", "b"}, {"", "c"}}},
                                  {{{"c", "ab"}}},
                                  {{{"a", "b"}, {"c", "d"}}},
                                  {{{"c", "d"}, {"a", "b"}}}};
  std::set<std::string> digests;
  for (const auto& key : keys) digests.insert(key.digest());
  EXPECT_EQ(digests.size(), keys.size());
}

TEST(PlanCacheTest, ASecondGetDoesNotMakeThePlan) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  const auto first = cache.get("a");
  EXPECT_FALSE(first.is_cached);
  const auto second = cache.get("a");
  EXPECT_TRUE(second.is_cached);
  EXPECT_EQ(second.plan, plan_of("a"));
  EXPECT_EQ(cache.makes(), 1);
  EXPECT_TRUE(Cache(folder.path()).get("a").is_cached);
  EXPECT_THAT(cache.words(), IsEmpty());
}

TEST(PlanCacheTest, NothingButThePlanIsLeftInTheFolder) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  cache.get("a");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("plans"));
  EXPECT_THAT(names_in(fs::path(folder.path()) / "plans"),
              ElementsAre(key_of("a").digest() + ".json"));
}

TEST(PlanCacheTest, TheFileSaysWhatItWasMadeFor) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  cache.get("a");
  EXPECT_THAT(read_file(cache.path("a").string()),
              ::testing::StartsWith(R"({"format":"lockstep plan 1","key":[["model","a"],)"
                                    R"(["batch_size","8"],["version","1.2"]],"checksum":")"));
}

TEST(PlanCacheTest, AnotherKeyIsAnotherPlan) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  cache.get("a");
  EXPECT_FALSE(cache.get("b").is_cached);
  EXPECT_EQ(cache.get("a").plan.model, "a");
  EXPECT_EQ(cache.get("b").plan.model, "b");
}

TEST(PlanCacheTest, FactsNeedNotBeUtf8) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  cache.get("\xff/data");
  EXPECT_TRUE(cache.get("\xff/data").is_cached);
  EXPECT_FALSE(cache.get("\xfe/data").is_cached);
}

TEST(PlanCacheTest, AFolderIsMadeWithDefaultPermissions) {
  const ScratchFolder folder;
  const auto mask = ::umask(022);
  Cache(folder.path() + "/x/y").get("a");
  ::umask(mask);
  struct stat status {};
  ASSERT_EQ(::stat((folder.path() + "/x/y/plans").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755U);
}

TEST(PlanCacheTest, OfManyThreadsOneMakesThePlan) {
  const ScratchFolder folder;
  std::atomic<int> makes = 0;
  std::atomic<int> beats = 0;
  std::atomic<int> cached = 0;
  PlanCache cache(folder.path(), {.heartbeat = [&] { ++beats; }});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto found = cache.get(key_of("a"), [&] {
        ++makes;
        // Until somebody waits for it.
        wait_until([&] { return beats > 0; });
        return plan_of("a");
      });
      EXPECT_EQ(found.plan, plan_of("a"));
      if (found.is_cached) ++cached;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(makes, 1);
  EXPECT_EQ(cached, 7);
}

TEST(PlanCacheTest, OfManyProcessesOneMakesThePlan) {
  const ScratchFolder folder;
  for (int round = 0; round < 5; ++round) {
    const auto model = std::to_string(round);
    const auto log = folder.path() + "/made";
    write_file(log, "");
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i < 6; ++i) {
      children.push_back(std::make_unique<Child>([&] {
        PlanCache cache(folder.path(), {});
        const auto found = cache.get(key_of(model), [&] {
          const UniqueFd file(::open(log.c_str(), O_WRONLY | O_APPEND));
          if (::write(file.get(), "x", 1) != 1) ::_exit(2);
          std::this_thread::sleep_for(20ms);  // so that others do wait
          return plan_of(model);
        });
        if (found.plan != plan_of(model)) ::_exit(3);
      }));
    }
    for (auto& child : children) EXPECT_EQ(child->wait(), 0);
    EXPECT_EQ(read_file(log), "x");
  }
}

TEST(PlanCacheTest, WhoDiesMakingAPlanIsReplaced) {
  const ScratchFolder folder;
  auto holder = holder_of(folder.path(), "a");
  std::atomic<int> beats = 0;
  Cache cache(folder.path(), {.heartbeat = [&] {
                // The first time: it is waited for, and dies.
                if (beats++ == 0) holder->signal(SIGKILL);
              }});
  const auto found = cache.get("a");
  EXPECT_EQ(holder->wait(), -SIGKILL);
  EXPECT_FALSE(found.is_cached);
  EXPECT_EQ(cache.makes(), 1);
  EXPECT_GE(beats, 1);
  EXPECT_THAT(cache.words(), IsEmpty());
  EXPECT_TRUE(cache.get("a").is_cached);
  EXPECT_FALSE(fs::exists(cache.lock("a")));
}

TEST(PlanCacheTest, WhoIsStoppedIsWaitedForUntilTheDeadline) {
  const ScratchFolder folder;
  const auto holder = holder_of(folder.path(), "a");
  holder->signal(SIGSTOP);
  holder->wait_until_stopped();
  Cache cache(folder.path(), {.deadline = 200ms});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(cache.get("a").is_cached);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
  EXPECT_THAT(cache.words(),
              ElementsAre(fmt::format("{}: process {} has not made it within 0.2 s: made here, too",
                                      cache.path("a").string(), holder->id())));
  // It is kept all the same, so the next one does not wait at all.
  EXPECT_TRUE(cache.get("a").is_cached);
  EXPECT_TRUE(fs::exists(cache.lock("a"))) << "it is the other one's";
}

TEST(PlanCacheTest, AHolderThatDoesNotSayWhoItIsIsSomebodyElse) {
  const ScratchFolder folder;
  Cache cache(folder.path(), {.deadline = 0s});
  fs::create_directories(cache.lock("a").parent_path());
  const UniqueFd file(::open(cache.lock("a").c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_EQ(::flock(file.get(), LOCK_EX), 0);
  cache.get("a");
  EXPECT_THAT(cache.words(), ElementsAre(HasSubstr(": somebody else has not made it within 0 s")));
}

TEST(PlanCacheTest, ALockThatWasRemovedWhileItWasWaitedForIsTakenAnew) {
  const ScratchFolder folder;
  const auto path = Cache(folder.path()).lock("a");
  fs::create_directories(path.parent_path());
  UniqueFd old(::open(path.c_str(), O_RDWR | O_CREAT, 0644));
  ASSERT_EQ(::flock(old.get(), LOCK_EX), 0);
  Cache cache(folder.path(), {.heartbeat = [&] {
                if (!old) return;
                fs::remove(path);
                old.reset();
              }});
  cache->get(key_of("a"), [&] {
    // What is locked is what the path names now.
    const UniqueFd file(::open(path.c_str(), O_RDWR));
    EXPECT_TRUE(file);
    EXPECT_NE(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
    return plan_of("a");
  });
  EXPECT_FALSE(fs::exists(path));
}

TEST(PlanCacheTest, WhatTheHeartbeatThrowsEndsTheWait) {
  const ScratchFolder folder;
  const auto holder = holder_of(folder.path(), "a");
  Cache cache(folder.path(), {.heartbeat = [] { throw Error(ErrorKind::PeerLost, "gone"); }});
  lockstep::testing::expect_error([&] { cache.get("a"); }, ErrorKind::PeerLost, "gone");
  EXPECT_EQ(cache.makes(), 0);
}

TEST(PlanCacheTest, WhereMakingFailsTheNextOneMayTry) {
  const ScratchFolder folder;
  Cache cache(folder.path(), {.deadline = 0s});
  lockstep::testing::expect_error(
      [&] { cache->get(key_of("a"), []() -> Plan { throw Error(ErrorKind::Io, "no luck"); }); },
      ErrorKind::Io, "no luck");
  EXPECT_THAT(names_in(fs::path(folder.path()) / "plans"), IsEmpty());
  EXPECT_FALSE(cache.get("a").is_cached);
  EXPECT_TRUE(cache.get("a").is_cached);
  EXPECT_THAT(cache.words(), IsEmpty());
}

TEST(PlanCacheTest, EveryTruncationIsNoticedAndWrittenAnew) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  cache.get("a");
  const auto path = cache.path("a").string();
  const auto whole = read_file(path);
  // Without the end of its line it is still whole.
  for (std::size_t size = 0; size + 1 < whole.size(); size += 1 + size / 40) {
    write_file(path, std::string_view(whole).substr(0, size));
    Cache reader(folder.path());
    EXPECT_FALSE(reader.get("a").is_cached) << size;
    EXPECT_EQ(reader.words().size(), 1);
    EXPECT_THAT(reader.words()[0], HasSubstr(path + ": made anew: damaged: "));
    EXPECT_EQ(read_file(path), whole);
  }
}

TEST(PlanCacheTest, NoBitThatFlippedChangesAPlan) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  cache.get("a");
  const auto path = cache.path("a").string();
  const auto whole = read_file(path);
  std::mt19937 random(21);
  int noticed = 0;
  for (int round = 0; round < 400; ++round) {
    auto text = whole;
    text[random() % text.size()] ^= static_cast<char>(1U << random() % 8);
    write_file(path, text);
    Cache reader(folder.path());
    const auto found = reader.get("a");
    EXPECT_EQ(found.plan, plan_of("a"));
    EXPECT_EQ(reader.words().size(), found.is_cached ? 0 : 1);
    noticed += found.is_cached ? 0 : 1;
  }
  EXPECT_GT(noticed, 390);
}

/// What a cache says of an entry with this content.
std::string word_about(const std::string& content) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  fs::create_directories(cache.path("a").parent_path());
  write_file(cache.path("a").string(), content);
  EXPECT_FALSE(cache.get("a").is_cached);
  EXPECT_TRUE(cache.get("a").is_cached) << "it was written anew";
  EXPECT_EQ(cache.words().size(), 1);
  auto word = cache.words().at(0);
  const auto start = cache.path("a").string() + ": made anew: ";
  EXPECT_TRUE(word.starts_with(start)) << word;
  return word.substr(start.size());
}

TEST(PlanCacheTest, SaysWhyAnEntryIsNotUsed) {
  const std::string head = R"({"format": "lockstep plan 1")";
  const std::string key = R"(, "key": [["model", "a"], ["batch_size", "8"], ["version", "1.2"]])";
  EXPECT_EQ(word_about("what?"), "damaged: expected JSON, found something else at byte 1 of 5");
  EXPECT_EQ(word_about("3"), "damaged: expected 'format', found nothing");
  EXPECT_EQ(word_about("{}"), "damaged: expected 'format', found nothing");
  EXPECT_EQ(word_about(R"({"format": 2})"),
            "damaged: expected \"lockstep plan 1\" as its format, found 2");
  EXPECT_EQ(word_about(head + "}"), "damaged: expected 'key', found nothing");
  EXPECT_EQ(word_about(head + R"(, "key": 3})"), "made for something else: there are other facts");
  EXPECT_EQ(word_about(head + R"(, "key": [[], [], []]})"),
            "made for something else: there are other facts");
  EXPECT_EQ(word_about(head + R"(, "key": [["model", "a"], ["batch_size", 8], 3]})"),
            "made for something else: batch_size is 8 there, \"8\" here");
  EXPECT_EQ(word_about(head + key + "}"), "damaged: expected 'plan', found nothing");
  EXPECT_EQ(word_about(head + key + R"(, "plan": {}})"),
            "damaged: expected 'checksum', found nothing");
  const auto checksum = fmt::format("{:016x}", Fnv().add("{}").value());
  EXPECT_EQ(word_about(head + key + R"(, "plan": {}, "checksum": 1})"),
            fmt::format("damaged: expected \"{}\" as its checksum, found 1", checksum));
  EXPECT_EQ(word_about(head + key + R"(, "plan": {}, "checksum": ")" + checksum + "\"}"),
            "plan: expected 'model', found nothing");
}

TEST(PlanCacheTest, AnEntryForSomethingElseIsNotUsed) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  cache.get("a");
  fs::copy_file(cache.path("a"), cache.path("b"));
  EXPECT_EQ(cache.get("b").plan.model, "b");
  EXPECT_THAT(
      cache.words(),
      ElementsAre(cache.path("b").string() +
                  ": made anew: made for something else: model is \"a\" there, \"b\" here"));
  EXPECT_TRUE(cache.get("b").is_cached);
}

TEST(PlanCacheTest, AnEntryThatIsTooLargeIsNotRead) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  cache.get("a");
  fs::resize_file(cache.path("a"), (16 << 20) + 1);
  EXPECT_FALSE(cache.get("a").is_cached);
  EXPECT_THAT(
      cache.words(),
      ElementsAre(HasSubstr(": made anew: expected at most 16777216 bytes, found 16777217")));
  EXPECT_TRUE(cache.get("a").is_cached);
}

TEST(PlanCacheTest, APlanThatIsTooLargeIsNotKept) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  const std::string model(17 << 20, 'x');
  EXPECT_EQ(cache.get(key_of("a"), model).plan.model, model);
  EXPECT_THAT(cache.words(),
              ElementsAre(HasSubstr(": not kept: expected at most 16777216 bytes, found 178")));
  EXPECT_FALSE(fs::exists(cache.path("a")));
}

TEST(PlanCacheTest, WhatIsNoFileIsLeftAlone) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  fs::create_directories(cache.path("a"));
  EXPECT_EQ(cache.get("a").plan, plan_of("a"));
  EXPECT_THAT(cache.words(),
              ElementsAre(HasSubstr(": made anew: expected a file, found another kind"),
                          HasSubstr(": not kept: ")));
  EXPECT_TRUE(fs::is_directory(cache.path("a")));
}

TEST(PlanCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  const ScratchFolder folder;
  Cache unlimited(folder.path());
  for (const auto* model : {"a", "b", "c"}) unlimited.get(model);
  const auto bytes = static_cast<std::int64_t>(fs::file_size(unlimited.path("a")));
  set_age(unlimited.path("a"), 30s);
  set_age(unlimited.path("b"), 20s);
  set_age(unlimited.path("c"), 10s);
  EXPECT_TRUE(unlimited.get("a").is_cached);  // now b is the oldest

  Cache cache(folder.path(), {.most_bytes = 3 * bytes});
  cache.get("d");
  EXPECT_TRUE(fs::exists(cache.path("a")));
  EXPECT_FALSE(fs::exists(cache.path("b")));
  EXPECT_TRUE(fs::exists(cache.path("c")));
  EXPECT_TRUE(fs::exists(cache.path("d")));
}

TEST(PlanCacheTest, WhatWasJustWrittenStays) {
  const ScratchFolder folder;
  Cache cache(folder.path(), {.most_bytes = 1});
  cache.get("a");
  set_age(cache.path("a"), -100s);  // written by a clock that is ahead
  cache.get("b");
  EXPECT_FALSE(fs::exists(cache.path("a")));
  EXPECT_TRUE(cache.get("b").is_cached);
}

TEST(PlanCacheTest, WhatDeadProcessesLeftGoesAfterAnHour) {
  const ScratchFolder folder;
  Cache cache(folder.path(), {.most_bytes = 1});
  cache.get("a");
  const auto plans = fs::path(folder.path()) / "plans";
  const std::string digits = "0123456789abcdef";
  const std::vector<std::string> old{digits + ".json.partial.1234", digits + ".lock", "notes.json",
                                     digits + ".txt", "0123.json"};
  for (const auto& name : old) {
    write_file((plans / name).string(), "x");
    set_age(plans / name, 2h);
  }
  const std::vector<std::string> young{"1" + digits.substr(1) + ".json.partial.1234",
                                       "1" + digits.substr(1) + ".lock"};
  for (const auto& name : young) write_file((plans / name).string(), "x");
  const auto held = (plans / ("2" + digits.substr(1) + ".lock")).string();
  write_file(held, "x");
  set_age(held, 2h);
  const UniqueFd file(::open(held.c_str(), O_RDWR));
  ASSERT_EQ(::flock(file.get(), LOCK_EX), 0);

  cache.get("b");
  EXPECT_THAT(names_in(plans),
              ::testing::UnorderedElementsAre(cache.path("b").filename().string(), "notes.json",
                                              digits + ".txt", "0123.json", young[0], young[1],
                                              fs::path(held).filename().string()));
}

TEST(PlanCacheTest, AFolderThatCannotBeMadeIsSaidOnce) {
  const ScratchFolder folder;
  const auto file = folder.write("file", "");
  Cache cache(file);
  EXPECT_EQ(cache.get("a").plan, plan_of("a"));
  EXPECT_EQ(cache.makes(), 1);
  EXPECT_THAT(cache.words(), ElementsAre(file + "/plans: plans are not kept: Not a directory"));
}

TEST(PlanCacheTest, AFolderThatCannotBeWrittenIsSaidOnce) {
  const ScratchFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  Cache(folder.path()).get("a");
  const auto plans = fs::path(folder.path()) / "plans";
  fs::permissions(plans, fs::perms(0555));
  Child reader([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(2);  // root may write everywhere
    Cache cache(folder.path());
    if (!cache.get("a").is_cached) ::_exit(3);
    if (cache.get("b").plan != plan_of("b")) ::_exit(4);
    const auto word = plans.string() + ": plans are not kept: Permission denied";
    if (cache.words() != std::vector{word}) ::_exit(5);
  });
  EXPECT_EQ(reader.wait(), 0);
  fs::permissions(plans, fs::perms(0755));
}

TEST(PlanCacheTest, ALockThatCannotBeMadeIsSaidOnce) {
  const ScratchFolder folder;
  Cache cache(folder.path());
  fs::create_directories(cache.lock("a"));
  EXPECT_EQ(cache.get("a").plan, plan_of("a"));
  EXPECT_THAT(cache.words(), ElementsAre(HasSubstr("/plans: plans are not kept: Is a directory")));
}

}  // namespace
}  // namespace lockstep::plan
