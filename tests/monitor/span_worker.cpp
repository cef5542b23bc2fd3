// span_worker PATH INSTANCE HOST STEPS: an instance whose two threads do as if they trained, and
// record it. With 0 steps it goes on until it is killed.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "lockstep/monitor/export/span_recorder.h"

namespace {

using lockstep::events::SpanKind;
using lockstep::events::SpanSink;
using lockstep::events::TimedScope;

void train(SpanSink& sink, long steps) {
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
    if (steps == 0 && step == 100) std::puts("recording");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int, char** arguments) {
  lockstep::monitor::SpanRecorder recorder(
      arguments[1], {.instance = std::atoi(arguments[2]), .host = arguments[3], .spans = 1024});
  const long steps = std::atol(arguments[4]);
  auto& first = recorder.track("device 0");
  auto& second = recorder.track("device 1");
  std::thread other([&] { train(second, steps); });
  train(first, steps);
  other.join();
}
