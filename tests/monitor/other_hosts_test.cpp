#include "lockstep/monitor/devices/other_hosts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "lockstep/launch/hosts/host_reports.h"
#include "lockstep/monitor/devices/snapshot_json.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::monitor {
namespace {

constexpr double kNow = 1.7e9;
constexpr std::int64_t kSecond = 1'000'000'000;

WatchedInstance instance_on(const std::string& host, int number) {
  WatchedInstance instance;
  instance.found.facts = {.job = "j",
                          .host = host,
                          .user = "agent",
                          .command = "train --epochs 2",
                          .process = 100 + number,
                          .start_time = kNow - 60,
                          .instance = number,
                          .num_instances = 2,
                          .replicas = {2 * number, 2},
                          .num_replicas = 4,
                          .devices_per_replica = 2,
                          .threads_per_device = 1,
                          .device_ids = {0, 1, 0, 1}};
  instance.found.state = {.phase = Phase::Training,
                          .epoch = 2,
                          .step = 5,
                          .steps_of_epoch = 10,
                          .samples = 640,
                          .samples_per_second = 64.5,
                          .loss = 0.5,
                          .seconds = {.data = 1, .compute = 2, .reduce = 3, .idle = 4},
                          .device_memory_bytes = 7,
                          .collectives = 9,
                          .collective = "all_reduce",
                          .is_in_collective = true,
                          .updated_ns = 90 * kSecond};
  instance.usage = {.cpu_percent = 98.5, .memory_bytes = 1 << 20};
  return instance;
}

/// A host with one instance, on all of its cores and a GPU.
HostSnapshot snapshot_of(const std::string& host, int number) {
  HostSnapshot snapshot{.host = host, .unix_time = kNow, .steady_ns = 91 * kSecond};
  snapshot.devices = {
      {.host = host, .model = "Some \"CPU\"", .cpus = {0, 1}, .memory_bytes = 10, .load = 12.5},
      {.host = host,
       .kind = DeviceKind::Cuda,
       .id = 3,
       .processes = {100 + number},
       .stages = {{.job = "j", .instance = number, .replica = 1, .stage = 1, .is_split = true}}}};
  snapshot.jobs = {{.id = "j", .user = "agent", .instances = {instance_on(host, number)}}};
  return snapshot;
}

class OtherHostsTest : public ::testing::Test {
 protected:
  /// What this machine sees by itself: instance 0.
  HostSnapshot here() const {
    auto snapshot = snapshot_of("here", 0);
    snapshot.steady_ns = 1000 * kSecond;
    snapshot.jobs[0].user = "me";
    snapshot.jobs[0].folder = folder_.path();
    return snapshot;
  }
  void report(int host, const std::string& text, double age_seconds = 0) const {
    launch::HostReports(folder_.path()).write(host, text);
    const auto time = kNow - age_seconds;
    const auto whole = static_cast<time_t>(time);
    const timespec stamp{whole, static_cast<long>((time - static_cast<double>(whole)) * 1e9)};
    const timespec both[] = {stamp, stamp};
    const auto path = folder_.path() + "/" + launch::host_report_name(host);
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), both, 0), 0);
  }

  testing::ScratchFolder folder_;
};

TEST_F(OtherHostsTest, ReadsBackWhatASnapshotWasWrittenAs) {
  auto written = snapshot_of("a", 1);
  auto damaged = WatchedInstance{};
  damaged.found = {.health = Health::Damaged, .problem = "cut short", .path = "p"};
  damaged.found.facts.instance = 7;
  written.jobs[0].instances.push_back(damaged);
  const auto text = to_json(written);
  const auto read = parse_snapshot(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(to_json(*read), text);
}

TEST_F(OtherHostsTest, AddsInstancesAndDevicesOfAnotherHost) {
  report(1, to_json(snapshot_of("there", 1)), 0.5);
  auto snapshot = here();
  add_other_hosts(snapshot);
  ASSERT_EQ(snapshot.jobs[0].instances.size(), 2U);
  const auto& added = snapshot.jobs[0].instances[1];
  EXPECT_EQ(added.found.facts.host, "there");
  EXPECT_EQ(added.found.facts.user, "me") << "whose folder it is in, not what is said there";
  EXPECT_EQ(added.found.health, Health::Running);
  EXPECT_EQ(added.usage.cpu_percent, 98.5);
  const auto age = static_cast<double>(snapshot.steady_ns - added.found.state.updated_ns) * 1e-9;
  EXPECT_NEAR(age, 1.5, 1e-3);  // one there, and a half since
  ASSERT_EQ(snapshot.devices.size(), 4U);
  EXPECT_EQ(snapshot.devices[2].host, "there");
  EXPECT_EQ(snapshot.devices[3].stages.size(), 1U);
}

TEST_F(OtherHostsTest, KeepsWhatItSeesItself) {
  report(0, to_json(snapshot_of("as the job calls it", 0)));
  auto snapshot = here();
  add_other_hosts(snapshot);
  ASSERT_EQ(snapshot.jobs[0].instances.size(), 1U);
  EXPECT_EQ(snapshot.jobs[0].instances[0].found.facts.host, "here");
  EXPECT_EQ(snapshot.devices.size(), 2U);
}

TEST_F(OtherHostsTest, SaysThatAHostIsSilent) {
  report(1, to_json(snapshot_of("there", 1)), 6);
  auto snapshot = here();
  add_other_hosts(snapshot);
  ASSERT_EQ(snapshot.jobs[0].instances.size(), 2U);
  EXPECT_EQ(snapshot.jobs[0].instances[1].found.health, Health::Silent);
}

TEST_F(OtherHostsTest, ListsADeviceOnceThatTwoJobsComputeOn) {
  report(1, to_json(snapshot_of("there", 1)));
  report(2, to_json(snapshot_of("there", 2)));
  auto snapshot = here();
  add_other_hosts(snapshot);
  ASSERT_EQ(snapshot.devices.size(), 4U);
  EXPECT_EQ(snapshot.devices[3].stages.size(), 2U);
}

TEST_F(OtherHostsTest, LeavesOutWhatCannotBeRead) {
  const auto good = to_json(snapshot_of("there", 1));
  report(1, good.substr(0, good.size() / 2));
  report(2, "[1, 2]");
  auto unknown = good;
  unknown.replace(unknown.find("\"training\""), 10, "\"dreaming\"");
  report(3, unknown);
  folder_.write("elsewhere", good);
  std::filesystem::create_symlink(folder_.path() + "/elsewhere",
                                  folder_.path() + "/" + launch::host_report_name(4));
  ASSERT_EQ(::mkfifo((folder_.path() + "/" + launch::host_report_name(5)).c_str(), 0600), 0);
  auto snapshot = here();
  add_other_hosts(snapshot);
  EXPECT_EQ(snapshot.jobs[0].instances.size(), 1U);
  EXPECT_EQ(snapshot.devices.size(), 2U);
}

TEST_F(OtherHostsTest, ForgetsAHostThatIsLost) {
  const launch::HostReports reports(folder_.path());
  reports.write(1, to_json(snapshot_of("there", 1)));
  reports.remove(1);
  reports.remove(1);
  auto snapshot = here();
  add_other_hosts(snapshot);
  EXPECT_EQ(snapshot.jobs[0].instances.size(), 1U);
  launch::HostReports("/nowhere/at/all").write(1, "text");  // is no error
}

}  // namespace
}  // namespace lockstep::monitor
