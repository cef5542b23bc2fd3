// Stands in for NVIDIA's library: two GPUs, of which the second one tells little.
//
// FAKE_NVML=broken lets it refuse to begin; FAKE_NVML_PROCESS is a process that computes on GPU 1.

#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kDriverNotLoaded = 9;

struct Gpu {
  int number;
};
Gpu gpus[] = {{0}, {1}};

struct MemoryInfo {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
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

}  // namespace

#pragma GCC visibility push(default)  // other code of the process calls these
extern "C" {

int nvmlInit_v2() {
  const char* how = std::getenv("FAKE_NVML");
  return how != nullptr && std::strcmp(how, "broken") == 0 ? kDriverNotLoaded : kSuccess;
}

int nvmlShutdown() {
  return kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu** gpu) {
  *gpu = &gpus[index];
  return kSuccess;
}

int nvmlDeviceGetName(Gpu*, char* name, unsigned length) {
  std::strncpy(name, "NVIDIA H200", length);
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo_v2(Gpu* gpu, MemoryInfo* info) {
  constexpr unsigned long long kGiB = 1024ULL * 1024 * 1024;
  constexpr int kVersionMismatch = 25;
  if (info->version != (sizeof(MemoryInfo) | (2U << 24))) return kVersionMismatch;
  *info = {info->version, 140 * kGiB, 1 * kGiB, 78 * kGiB, 61 * kGiB};
  return gpu->number == 0 ? kSuccess : kNotSupported;
}

int nvmlDeviceGetUtilizationRates(Gpu* gpu, Utilization* rates) {
  *rates = {97, 40};
  return gpu->number == 0 ? kSuccess : kNotSupported;
}

int nvmlDeviceGetTemperature(Gpu* gpu, int sensor, unsigned* celsius) {
  *celsius = 61;
  return gpu->number == 0 && sensor == 0 ? kSuccess : kNotSupported;
}

int nvmlDeviceGetPowerUsage(Gpu* gpu, unsigned* milliwatts) {
  *milliwatts = 512300;
  return gpu->number == 0 ? kSuccess : kNotSupported;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Gpu* gpu, unsigned* count, ProcessInfo* infos) {
  const char* process = std::getenv("FAKE_NVML_PROCESS");
  const bool is_seen = process != nullptr && gpu->number == 1;
  if (is_seen) infos[0] = {static_cast<unsigned>(std::atoi(process)), 5, 0, 0};
  *count = is_seen ? 1 : 0;
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
