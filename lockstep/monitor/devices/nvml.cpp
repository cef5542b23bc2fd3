#include "lockstep/monitor/devices/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "lockstep/base/error.h"

namespace lockstep::monitor {
namespace {

constexpr int kSuccess = 0;
constexpr int kCoreTemperature = 0;

struct CloseLibrary {
  void operator()(void* library) const noexcept { ::dlclose(library); }
};

Error unavailable(const std::string& why) {
  return {ErrorKind::Unavailable, "GPUs: " + why,
          "install NVIDIA's driver, which brings libnvidia-ml.so.1"};
}

}  // namespace

// The part of NVML's C interface that lockstep calls. NVIDIA never changes a function: one with
// another meaning gets another suffix. The types are members, because g++ 13 crashes on a member
// function pointer whose parameter is a type of an anonymous namespace, if the file is part of a
// unity build.
struct Nvml::Functions {
  using Handle = void*;

  /// The second version. Unlike the first one, it does not count the memory of the driver as used.
  struct MemoryInfo {
    unsigned version = sizeof(MemoryInfo) | (2U << 24);
    unsigned long long total = 0;
    unsigned long long reserved = 0;
    unsigned long long free = 0;
    unsigned long long used = 0;
  };

  struct Utilization {
    unsigned gpu;
    unsigned memory;
  };

  struct ProcessInfo {
    unsigned process;
    unsigned long long used_memory;
    unsigned gpu_instance;
    unsigned compute_instance;
  };

  explicit Functions(const std::string& path)
      : library(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!library) throw unavailable(::dlerror());
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(count, "nvmlDeviceGetCount_v2");
    find(by_index, "nvmlDeviceGetHandleByIndex_v2");
    find(name, "nvmlDeviceGetName");
    find(memory, "nvmlDeviceGetMemoryInfo_v2");
    find(utilization, "nvmlDeviceGetUtilizationRates");
    find(temperature, "nvmlDeviceGetTemperature");
    find(power, "nvmlDeviceGetPowerUsage");
    find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (!init || !shutdown || !count || !by_index) {
      throw unavailable(path + " is not NVIDIA's library: it does not export nvmlInit_v2");
    }
  }

  template <typename Function>
  void find(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(::dlsym(library.get(), symbol));
  }

  std::unique_ptr<void, CloseLibrary> library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Handle*) = nullptr;
  // Null if the driver is too old for a function.
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*memory)(Handle, MemoryInfo*) = nullptr;
  int (*utilization)(Handle, Utilization*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*processes)(Handle, unsigned*, ProcessInfo*) = nullptr;

  Device describe(int index, Handle handle) const;
  std::vector<int> processes_on(Handle handle) const;
};

std::vector<int> Nvml::Functions::processes_on(Handle handle) const {
  std::array<ProcessInfo, 256> infos{};
  auto number = static_cast<unsigned>(infos.size());
  if (!processes || processes(handle, &number, infos.data()) != kSuccess) return {};
  std::vector<int> found;
  for (unsigned i = 0; i < number && i < infos.size(); ++i) {
    found.push_back(static_cast<int>(infos[i].process));
  }
  return found;
}

Device Nvml::Functions::describe(int index, Handle handle) const {
  Device device{.kind = DeviceKind::Cuda, .id = index, .processes = processes_on(handle)};
  std::array<char, 96> text{};
  if (name && name(handle, text.data(), text.size() - 1) == kSuccess) device.model = text.data();
  MemoryInfo bytes{};
  if (memory && memory(handle, &bytes) == kSuccess) {
    device.memory_bytes = static_cast<std::int64_t>(bytes.total);
    device.used_memory_bytes = static_cast<std::int64_t>(bytes.used);
  }
  Utilization busy{};
  if (utilization && utilization(handle, &busy) == kSuccess) device.load = busy.gpu;
  unsigned value = 0;
  if (temperature && temperature(handle, kCoreTemperature, &value) == kSuccess) {
    device.temperature_celsius = value;
  }
  if (power && power(handle, &value) == kSuccess) device.power_watts = value / 1000.0;
  return device;
}

Nvml::Nvml(const std::string& library) : functions_(std::make_unique<Functions>(library)) {
  if (const int error = functions_->init(); error != kSuccess) {
    throw unavailable(fmt::format("{}: nvmlInit_v2 failed with error {}", library, error));
  }
}

Nvml::~Nvml() {
  functions_->shutdown();
}

std::vector<Device> Nvml::devices() const {
  std::vector<Device> found;
  unsigned number = 0;
  if (functions_->count(&number) != kSuccess) return found;
  for (unsigned i = 0; i < number; ++i) {
    Functions::Handle handle = nullptr;
    if (functions_->by_index(i, &handle) != kSuccess) continue;
    found.push_back(functions_->describe(static_cast<int>(i), handle));
  }
  return found;
}

}  // namespace lockstep::monitor
