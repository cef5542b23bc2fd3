#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/monitor/devices/cpu_sensors.h"
#include "lockstep/monitor/devices/host_sampler.h"
#include "lockstep/monitor/devices/nvml.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kFakeNvml = std::string(FAKE_NVML_FOLDER) + "/libnvidia-ml.so.1";

class CpuSensorsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(
        (std::filesystem::path(machine_.path()) / path).parent_path());
    machine_.write(path, text);
  }
  testing::ScratchFolder machine_;
};

TEST_F(CpuSensorsTest, MeasuresTheLoadOfChosenThreadsSinceTheLastLook) {
  write("proc/stat",
        "cpu  9 9 9 9 9 9 9 9 0 0\n"
        "cpu0 100 0 0 100 0 0 0 0 0 0\n"
        "cpu1 0 0 0 1000 0 0 0 0 0 0\n");
  CpuSensors sensors(machine_.path());
  sensors.sample(0);
  write("proc/stat",
        "cpu  9 9 9 9 9 9 9 9 0 0\n"
        "cpu0 110 20 30 110 30 0 0 0 0 0\n"    // 60 busy of 100, waiting for disks is not
        "cpu1 0 0 10 1060 0 10 10 10 0 0\n");  // 40 of 100
  sensors.sample(1);
  EXPECT_DOUBLE_EQ(sensors.load(std::vector{0}).value(), 60);
  EXPECT_DOUBLE_EQ(sensors.load(std::vector{1}).value(), 40);
  EXPECT_DOUBLE_EQ(sensors.load().value(), 50);
  EXPECT_FALSE(sensors.load(std::vector{7}).has_value());
}

TEST_F(CpuSensorsTest, TakesTheWarmestOfTheProcessorsAndNoDisks) {
  write("sys/class/hwmon/hwmon0/name", "nvme\n");
  write("sys/class/hwmon/hwmon0/temp1_input", "90000\n");
  write("sys/class/hwmon/hwmon1/name", "coretemp\n");
  write("sys/class/hwmon/hwmon1/temp1_input", "48000\n");
  write("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n");
  write("sys/class/thermal/thermal_zone0/temp", "51500\n");
  CpuSensors sensors(machine_.path());
  sensors.sample(0);
  EXPECT_DOUBLE_EQ(sensors.temperature_celsius().value(), 51.5);
}

TEST_F(CpuSensorsTest, DividesEnergyByTime) {
  const auto set = [&](const char* first, const char* second) {
    write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
    write("sys/class/powercap/intel-rapl:0/energy_uj", first);
    write("sys/class/powercap/intel-rapl:1/name", "package-1\n");
    write("sys/class/powercap/intel-rapl:1/energy_uj", second);
    write("sys/class/powercap/intel-rapl:0:0/name", "core\n");
    write("sys/class/powercap/intel-rapl:0:0/energy_uj", "777000000\n");
  };
  CpuSensors sensors(machine_.path());
  set("1000000\n", "5000000\n");
  sensors.sample(10);
  EXPECT_FALSE(sensors.power_watts().has_value());
  set("101000000\n", "65000000\n");
  sensors.sample(12);
  EXPECT_DOUBLE_EQ(sensors.power_watts().value(), 80);
  set("1\n", "1\n");  // begun anew
  sensors.sample(14);
  EXPECT_FALSE(sensors.power_watts().has_value());
}

TEST_F(CpuSensorsTest, SaysNothingWhereTheMachineTellsNothing) {
  write("proc/stat", "cpu0 what\n");
  CpuSensors sensors(machine_.path());
  sensors.sample(0);
  EXPECT_FALSE(sensors.load().has_value());
  EXPECT_FALSE(sensors.temperature_celsius().has_value());
  EXPECT_FALSE(sensors.power_watts().has_value());
}

TEST(NvmlTest, TellsOfGpusAndLeavesOutWhatOneDoesNotTell) {
  ::setenv("FAKE_NVML_PROCESS", "4711", 1);
  const auto gpus = Nvml(kFakeNvml).devices();
  ::unsetenv("FAKE_NVML_PROCESS");
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].kind, DeviceKind::Cuda);
  EXPECT_EQ(gpus[0].id, 0);
  EXPECT_EQ(gpus[0].model, "NVIDIA H200");
  EXPECT_EQ(gpus[0].memory_bytes, 140LL << 30);
  EXPECT_EQ(gpus[0].used_memory_bytes, 61LL << 30);
  EXPECT_EQ(gpus[0].load, 97);
  EXPECT_EQ(gpus[0].temperature_celsius, 61);
  EXPECT_DOUBLE_EQ(gpus[0].power_watts.value(), 512.3);
  EXPECT_THAT(gpus[0].processes, IsEmpty());
  EXPECT_EQ(gpus[1].id, 1);
  EXPECT_EQ(gpus[1].memory_bytes, 0);
  EXPECT_FALSE(gpus[1].load || gpus[1].temperature_celsius || gpus[1].power_watts);
  EXPECT_THAT(gpus[1].processes, ElementsAre(4711));
}

std::string refusal_of(const std::string& library) {
  try {
    const Nvml nvml(library);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unavailable);
    EXPECT_THAT(error.hint(), HasSubstr("NVIDIA's driver"));
    return error.what();
  }
  return "none";
}

TEST(NvmlTest, SaysWhyThereAreNoGpus) {
  EXPECT_THAT(refusal_of("libno-such-library.so.1"), HasSubstr("libno-such-library.so.1"));
  EXPECT_THAT(refusal_of("libm.so.6"), HasSubstr("libm.so.6 is not NVIDIA's"));
  ::setenv("FAKE_NVML", "broken", 1);
  EXPECT_THAT(refusal_of(kFakeNvml), HasSubstr("nvmlInit_v2 failed with error 9"));
  ::unsetenv("FAKE_NVML");
}

/// An instance of a job of two, with two replicas of two stages each.
WatchedInstance instance(int number, DeviceKind kind, std::vector<int> device_ids,
                         std::vector<int> cpus) {
  WatchedInstance watched;
  watched.found.facts = {.process = 100 + number,
                         .instance = number,
                         .num_instances = 2,
                         .replicas = {2 * number, 2},
                         .num_replicas = 4,
                         .devices_per_replica = 2,
                         .device_kind = kind,
                         .device_ids = std::move(device_ids)};
  watched.usage.cpus = std::move(cpus);
  return watched;
}

topology::Machine machine_of(int cores) {
  topology::Machine machine;
  for (int core = 0; core < cores; ++core) machine.cores.push_back({0, {core}});
  return machine;
}

TEST(CpuDevicesTest, DividesTheCoresOfABoundInstanceAmongItsDevices) {
  const std::vector<WatchedJob> jobs{
      {.id = "a",
       .instances = {instance(0, DeviceKind::Cpu, {0, 1, 0, 1}, {0, 1, 2, 3}),
                     instance(1, DeviceKind::Cpu, {2, 3, 2, 3}, {4, 5, 6, 7})}}};
  const auto devices = cpu_devices_of(jobs, machine_of(8));
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_EQ(devices[0].id, 0);
  EXPECT_THAT(devices[0].cpus, ElementsAre(0, 1));
  EXPECT_THAT(devices[1].cpus, ElementsAre(2, 3));
  EXPECT_THAT(devices[3].cpus, ElementsAre(6, 7));
  EXPECT_THAT(devices[3].stages,
              ElementsAre(StageOnDevice{"a", 1, 2, 1, true}, StageOnDevice{"a", 1, 3, 1, true}));
}

TEST(CpuDevicesTest, ShareAllCoresWhereAnInstanceIsFree) {
  const std::vector<WatchedJob> jobs{
      {.id = "a", .instances = {instance(0, DeviceKind::Cpu, {0, 1, 0, 1}, {0, 1})}}};
  const auto devices = cpu_devices_of(jobs, machine_of(2));
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_THAT(devices[0].cpus, ElementsAre(0, 1));
  EXPECT_THAT(devices[1].cpus, ElementsAre(0, 1));
}

TEST(CpuDevicesTest, LeaveOutInstancesThatHaveEnded) {
  auto ended = instance(0, DeviceKind::Cpu, {0}, {});
  ended.found.health = Health::Ended;
  EXPECT_THAT(cpu_devices_of({{.id = "a", .instances = {ended}}}, machine_of(2)), IsEmpty());
}

TEST(GpuDevicesTest, AreKnownByTheProcessOnThemOrElseByTheirNumber) {
  std::vector<Device> gpus{{.kind = DeviceKind::Cuda, .id = 0},
                           {.kind = DeviceKind::Cuda, .id = 1, .processes = {100}}};
  // The program calls the only GPU that it may use 0; the driver sees it on GPU 1.
  attach_to_gpus(gpus, {{.id = "a", .instances = {instance(0, DeviceKind::Cuda, {0}, {})}},
                        {.id = "b", .instances = {instance(1, DeviceKind::Cuda, {0, 9}, {})}}});
  EXPECT_THAT(gpus[1].stages, ElementsAre(StageOnDevice{"a", 0, 0, 0, true}));
  EXPECT_THAT(gpus[0].stages, ElementsAre(StageOnDevice{"b", 1, 2, 0, true}));
}

TEST(HostSamplerTest, TellsOfThisMachine) {
  const testing::ScratchFolder folder;
  HostSampler sampler(topology::Environment({{"TMPDIR", folder.path()}}));
  const auto snapshot = sampler.sample();
  EXPECT_FALSE(snapshot.host.empty());
  EXPECT_GT(snapshot.unix_time, 1.6e9);
  ASSERT_FALSE(snapshot.devices.empty());
  const auto& machine = snapshot.devices.front();
  EXPECT_FALSE(machine.id.has_value());
  EXPECT_FALSE(machine.cpus.empty());
  EXPECT_GT(machine.memory_bytes, machine.used_memory_bytes);
  EXPECT_GT(machine.used_memory_bytes, 0);
}

}  // namespace
}  // namespace lockstep::monitor
