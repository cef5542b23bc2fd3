#include "lockstep/monitor/status/status_page.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/monitor/status/page_layout.h"
#include "lockstep/monitor/status/read_page.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::monitor {
namespace {

using ::testing::HasSubstr;

InstanceFacts some_facts() {
  return {.job = "0123456789ab",
          .host = "node7",
          .user = "ada",
          .command = "train --epochs 5",
          .process = 4711,
          .start_ticks = 99,
          .start_time = 1234.5,
          .instance = 3,
          .num_instances = 4,
          .restart_count = 2,
          .replicas = {6, 2},
          .num_replicas = 8,
          .devices_per_replica = 2,
          .threads_per_device = 5,
          .device_kind = DeviceKind::Cuda,
          .device_ids = {4, 5, 6, 7}};
}

/// Every number follows from the first, so that parts of two updates cannot pass for one.
InstanceState state_number(std::int64_t number) {
  const auto value = static_cast<double>(number);
  return {.phase = number % 2 == 0 ? Phase::Training : Phase::Evaluating,
          .epoch = number,
          .step = number + 1,
          .steps_of_epoch = number + 2,
          .samples = number + 3,
          .samples_per_second = value + 0.5,
          .loss = value + 0.25,
          .accuracy = value + 0.125,
          .seconds = {value + 1, value + 2, value + 3, value + 4},
          .device_memory_bytes = number + 4,
          .collectives = number + 5,
          .collective = std::to_string(number),
          .is_in_collective = number % 2 == 0,
          .updated_ns = number + 6};
}

void expect_whole(const InstanceState& state) {
  const auto expected = state_number(state.epoch);
  EXPECT_EQ(state.phase, expected.phase);
  EXPECT_EQ(state.step, expected.step);
  EXPECT_EQ(state.steps_of_epoch, expected.steps_of_epoch);
  EXPECT_EQ(state.samples, expected.samples);
  EXPECT_EQ(state.samples_per_second, expected.samples_per_second);
  EXPECT_EQ(state.loss, expected.loss);
  EXPECT_EQ(state.accuracy, expected.accuracy);
  EXPECT_EQ(state.seconds, expected.seconds);
  EXPECT_EQ(state.device_memory_bytes, expected.device_memory_bytes);
  EXPECT_EQ(state.collectives, expected.collectives);
  EXPECT_EQ(state.collective, expected.collective);
  EXPECT_EQ(state.is_in_collective, expected.is_in_collective);
  EXPECT_EQ(state.updated_ns, expected.updated_ns);
}

PageContent read(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return read_page(file.get());
}

std::string complaint_about(const std::string& path) {
  try {
    read(path);
  } catch (const BadPage& error) {
    return error.what();
  }
  return "nothing";
}

class StatusPageTest : public ::testing::Test {
 protected:
  /// A page that can be spoiled: its writer thinks that it has gone away.
  std::string copy_of_page(const std::string& name) const {
    const auto copy = scratch_.path() + "/" + name;
    std::filesystem::copy_file(page_.path(), copy,
                               std::filesystem::copy_options::overwrite_existing);
    return copy;
  }

  /// The same with other bytes at a place.
  template <typename Value>
  std::string spoiled_at(std::size_t offset, const Value& value) const {
    const auto copy = copy_of_page("spoiled");
    const UniqueFd file(::open(copy.c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_EQ(::pwrite(file.get(), &value, sizeof value, static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof value));
    return copy;
  }

  std::string with_flipped(std::size_t offset) const {
    const auto byte = read_file(page_.path()).at(offset);
    return spoiled_at<char>(offset, static_cast<char>(~byte));
  }

  testing::ScratchFolder scratch_;
  StatusPage page_{scratch_.path(), some_facts()};
};

TEST_F(StatusPageTest, SaysWhoItsInstanceIsBeforeAnythingElse) {
  const auto content = read(page_.path());
  EXPECT_EQ(content.facts, some_facts());
  EXPECT_EQ(content.state.phase, Phase::Starting);
  EXPECT_EQ(content.state.epoch, 0);
  EXPECT_TRUE(std::isnan(content.state.loss));
}

TEST_F(StatusPageTest, KeepsTheLastThatWasSaid) {
  for (const int number : {1, 2, 3}) {
    page_.write(state_number(number));
    const auto state = read(page_.path()).state;
    EXPECT_EQ(state.epoch, number);
    expect_whole(state);
  }
}

TEST_F(StatusPageTest, IsForItsUserAloneAndGoneWithItsInstance) {
  struct stat info {};
  ASSERT_EQ(::stat(page_.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  const testing::ScratchFolder other;
  { const StatusPage page(other.path(), some_facts()); }
  EXPECT_TRUE(other.is_empty());
}

TEST_F(StatusPageTest, LeavesThePageOfTheInstanceThatTookItsPlace) {
  const testing::ScratchFolder other;
  auto first = std::make_unique<StatusPage>(other.path(), some_facts());
  auto facts = some_facts();
  facts.restart_count = 3;
  const StatusPage second(other.path(), facts);
  first.reset();
  EXPECT_EQ(read(second.path()).facts.restart_count, 3);
}

TEST_F(StatusPageTest, IsNeverSeenInPartsByReadersOnOtherThreads) {
  std::atomic<bool> is_done = false;
  std::atomic<std::int64_t> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      std::int64_t last = 0;
      while (!is_done) {
        const auto state = read(page_.path()).state;
        if (state.updated_ns == 0) continue;
        expect_whole(state);
        EXPECT_GE(state.epoch, last);
        last = state.epoch;
        ++reads;
      }
    });
  }
  std::int64_t number = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (reads < 3000 && std::chrono::steady_clock::now() < end)
    page_.write(state_number(++number));
  is_done = true;
  for (auto& reader : readers) reader.join();
  EXPECT_GE(reads, 3000);
  EXPECT_GT(number, 1000);
}

TEST_F(StatusPageTest, IsCutShortAtAnyLengthWithoutHarm) {
  page_.write(state_number(5));
  const auto whole = page::kPageSize;
  for (std::size_t length = 0; length < sizeof(page::Page) - sizeof(page::Place); length += 13) {
    const auto copy = copy_of_page("short");
    std::filesystem::resize_file(copy, length);
    EXPECT_THAT(complaint_about(copy),
                HasSubstr("cut short: " + std::to_string(length) + " of " + std::to_string(whole)));
  }
}

TEST_F(StatusPageTest, IsReadWhileItIsCutShort) {
  page_.write(state_number(5));
  const UniqueFd file(::open(page_.path().c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read_page(file.get()).state.epoch, 5);
  std::filesystem::resize_file(page_.path(), 100);
  EXPECT_THROW(read_page(file.get()), BadPage);
  // Its writer has the memory mapped: what it touches must be there again.
  std::filesystem::resize_file(page_.path(), page::kPageSize);
}

TEST_F(StatusPageTest, EveryDamagedByteOfWhatCountsIsNoticed) {
  page_.write(state_number(4));  // the first update is in the second of the two places
  const auto facts = offsetof(page::Page, facts);
  for (auto offset = facts; offset < facts + sizeof(page::Facts); offset += 7) {
    EXPECT_EQ(complaint_about(with_flipped(offset)), "damaged: the checksum of its facts is wrong");
  }
  const auto unused = offsetof(page::Page, places);
  const auto current = unused + sizeof(page::Place);
  for (std::size_t offset = 0; offset < sizeof(page::State); offset += 3) {
    EXPECT_EQ(complaint_about(with_flipped(current + offset)),
              "damaged: the checksum of its state is wrong");
    EXPECT_EQ(complaint_about(with_flipped(unused + offset)), "nothing");
  }
}

TEST_F(StatusPageTest, AnotherFileOrLayoutIsNamed) {
  EXPECT_EQ(complaint_about(spoiled_at<std::uint64_t>(0, 0)), "damaged: not a status page");
  EXPECT_EQ(complaint_about(spoiled_at<std::uint64_t>(8, 7)),
            "of another build of lockstep: its layout is 7, ours 1");
  EXPECT_THAT(complaint_about(scratch_.path()), HasSubstr("cannot be read: Is a directory"));
}

/// The page with other facts, whose checksum is right.
template <typename Change>
std::string with_facts(const std::string& path, const Change& change) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  page::Facts facts{};
  const auto offset = static_cast<off_t>(offsetof(page::Page, facts));
  EXPECT_EQ(::pread(file.get(), &facts, sizeof facts, offset), ssize_t{sizeof facts});
  change(facts);
  const auto checksum = page::checksum_of(facts);
  EXPECT_EQ(::pwrite(file.get(), &facts, sizeof facts, offset), ssize_t{sizeof facts});
  EXPECT_EQ(::pwrite(file.get(), &checksum, sizeof checksum,
                     static_cast<off_t>(offsetof(page::Page, facts_checksum))),
            ssize_t{sizeof checksum});
  return path;
}

TEST_F(StatusPageTest, NumbersThatCannotBeAreRefused) {
  const auto complaint = [&](auto change) {
    return complaint_about(with_facts(copy_of_page("wrong"), change));
  };
  const auto* const refusal = "damaged: what it says of its instance cannot be";
  EXPECT_EQ(complaint([](page::Facts&) {}), "nothing");
  EXPECT_EQ(complaint([](page::Facts& facts) { facts.process = -1; }), refusal);
  EXPECT_EQ(complaint([](page::Facts& facts) { facts.instance = 4; }), refusal);
  EXPECT_EQ(complaint([](page::Facts& facts) { facts.local_replicas = 2'000'000'000; }), refusal);
  EXPECT_EQ(complaint([](page::Facts& facts) { facts.num_devices = -5; }), refusal);
  EXPECT_EQ(complaint([](page::Facts& facts) { facts.device_kind = 9; }), refusal);
}

TEST_F(StatusPageTest, MoreDevicesThanThereIsRoomForAreLeftOut) {
  const auto path =
      with_facts(copy_of_page("many"), [](page::Facts& facts) { facts.num_devices = 1'000'000; });
  EXPECT_EQ(read(path).facts.device_ids.size(), page::kMaxDevices);
}

TEST_F(StatusPageTest, TextsCanNeitherSteerATerminalNorBreakJson) {
  const auto path = with_facts(copy_of_page("texts"), [](page::Facts& facts) {
    facts.command.fill('x');
    facts.command[0] = '\x1b';
    facts.command[1] = '\n';
    facts.user = {'a', '\xff', 'b'};
    facts.host = {'\xc3', '\xa4'};
    facts.job = {'\xc2', '\x9b', 'j'};  // U+009B begins a command, as ESC [ does
  });
  const auto facts = read(path).facts;
  EXPECT_EQ(facts.command, "??" + std::string(510, 'x'));
  EXPECT_EQ(facts.user, "a?b");
  EXPECT_EQ(facts.host, "ä");
  EXPECT_EQ(facts.job, "?j");
}

TEST_F(StatusPageTest, NumbersCannotMakeAReaderWorkForEver) {
  const auto refuses = [&](auto change) {
    EXPECT_THROW(read(with_facts(copy_of_page("numbers"), change)), BadPage);
  };
  refuses([](page::Facts& facts) {
    facts.num_replicas = std::numeric_limits<std::int32_t>::max();
    facts.first_replica = 0;
    facts.local_replicas = facts.num_replicas;
  });
  refuses([](page::Facts& facts) {
    facts.devices_per_replica = std::numeric_limits<std::int32_t>::max();
  });
}

TEST_F(StatusPageTest, LeavesNothingWhereItCannotGetItsName) {
  const testing::ScratchFolder other;
  std::filesystem::create_directories(other.path() + "/status-3/in the way");
  EXPECT_THROW(StatusPage(other.path(), some_facts()), Error);
  std::filesystem::remove_all(other.path() + "/status-3");
  EXPECT_TRUE(other.is_empty());
}

TEST_F(StatusPageTest, SaysWhatIsWrongWhereItCannotBeMade) {
  try {
    const StatusPage page(scratch_.path() + "/nowhere", some_facts());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io);
    EXPECT_THAT(error.what(), HasSubstr("nowhere/status-3."));
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
}

}  // namespace
}  // namespace lockstep::monitor
