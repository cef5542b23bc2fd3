// The way of an instance's output through the launcher: from pieces of bytes to tagged lines.
#include <benchmark/benchmark.h>
#include <fcntl.h>

#include <algorithm>

#include "lockstep/launch/supervise/line_buffer.h"
#include "lockstep/ui/job_console.h"

namespace lockstep {
namespace {

std::string short_lines(std::size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += std::to_string(i) + '\n';
  return text;
}

void split_and_tag(benchmark::State& state) {
  const auto text = short_lines(1 << 16);
  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ui::JobConsole console({.num_instances = 4}, nowhere.get(), nowhere.get());
  launch::LineBuffer buffer;
  std::int64_t lines = 0;
  for (auto _ : state) {
    const auto whole = buffer.add(text);
    console.on(events::InstanceOutput{1, events::Stream::Stdout, whole.lines, whole.progress});
    lines += std::count(text.begin(), text.end(), '\n');
  }
  state.SetItemsProcessed(lines);
}
BENCHMARK(split_and_tag);

}  // namespace
}  // namespace lockstep
