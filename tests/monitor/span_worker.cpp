// span_worker PATH INSTANCE HOST STEPS: an instance whose two threads record the spans of a
// pretended training. With 0 steps it runs until it is killed, and prints "recording" when both
// threads have recorded 100 steps.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "lockstep/monitor/export/span_recorder.h"

namespace {

using lockstep::events::SpanKind;
using lockstep::events::SpanSink;
using lockstep::events::TimedScope;

void train(SpanSink& sink, long steps, std::atomic<int>& recording) {
  for (long step = 1; steps == 0 || step <= steps; ++step) {
    { const TimedScope load(&sink, SpanKind::Load, step); }
    {
      const TimedScope forward(&sink, SpanKind::Forward, step);
      const TimedScope wait(&sink, SpanKind::Wait, step);
    }
    { const TimedScope backward(&sink, SpanKind::Backward, step); }
    {
      const TimedScope reduce(&sink, SpanKind::Reduce, step);
      const TimedScope update(&sink, SpanKind::Update, step);
    }
    if (steps == 0 && step == 100 && ++recording == 2) {
      std::puts("recording");
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int, char** arguments) {
  lockstep::monitor::SpanRecorder recorder(
      arguments[1], {.instance = std::atoi(arguments[2]), .host = arguments[3], .spans = 1024});
  const long steps = std::atol(arguments[4]);
  auto& first = recorder.track("device 0");
  auto& second = recorder.track("device 1");
  std::atomic<int> recording = 0;
  std::thread other([&] { train(second, steps, recording); });
  train(first, steps, recording);
  other.join();
}
