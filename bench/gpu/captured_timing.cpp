#include "bench/gpu/captured_timing.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "lockstep/gpu/check.h"

namespace lockstep::bench {
namespace {

using gpu::check;
using gpu::Stream;

constexpr int kWarmUps = 2;
constexpr int kRounds = 15;
constexpr int kRepeats = 5;  // within a launch, whose own time is then a small part

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Stream stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  double microseconds_since(const Event& begin) const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Work that was captured once, as an engine captures its steps.
class Graph {
 public:
  Graph(Stream stream, const std::function<void()>& work) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    work();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "capture");
    check(cudaGraphInstantiate(&executable_, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  ~Graph() { (void)cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(Stream stream) { check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

double microseconds_of(Stream stream, int sets, const std::function<void(int set)>& work) {
  Graph graph(stream, [&] {
    for (int call = 0; call < kRepeats * sets; ++call) work(call % sets);
  });
  std::vector<double> times;
  Event begin;
  Event end;
  for (int round = 0; round < kWarmUps + kRounds; ++round) {
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    const auto time = end.microseconds_since(begin) / (kRepeats * sets);
    if (round >= kWarmUps) times.push_back(time);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

double copy_bandwidth(Stream stream) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const gpu::DeviceMemory from(kBytes);
  const gpu::DeviceMemory to(kBytes);
  check(cudaMemsetAsync(from.data(), 0x3c, kBytes, stream), "cudaMemset");
  const auto time = microseconds_of(stream, 2, [&](int set) {
    check(cudaMemcpyAsync(set == 0 ? to.data() : from.data(), set == 0 ? from.data() : to.data(),
                          kBytes, cudaMemcpyDeviceToDevice, stream),
          "copy");
  });
  return 2.0 * kBytes / (time * 1e-6);
}

OwnStream::OwnStream() {
  check(cudaStreamCreate(&stream_), "cudaStreamCreate");
}

OwnStream::~OwnStream() {
  (void)cudaStreamDestroy(stream_);
}

}  // namespace lockstep::bench
