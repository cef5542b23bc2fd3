// What it costs an instance to say what it does, and others to read it.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/monitor/status/find_jobs.h"
#include "lockstep/monitor/status/read_page.h"
#include "lockstep/monitor/status/status_publisher.h"

namespace lockstep::monitor {
namespace {

/// A folder for the job, gone in the end.
class Folder {
 public:
  Folder() {
    std::string pattern = "/tmp/status_bench-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw io_error("mkdtemp");
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  topology::Environment environment() const { return topology::Environment({{"TMPDIR", path_}}); }
  std::string parent() const { return path_ + "/lockstep-" + std::to_string(::getuid()); }

 private:
  std::string path_;
};

events::StepsDone step_number(std::int64_t number) {
  return {.epoch = 1,
          .step = number,
          .steps_of_epoch = 1000,
          .samples = 64,
          .loss = 0.5,
          .accuracy = 50,
          .seconds = {.data = 1e-3, .compute = 1e-2, .reduce = 1e-3, .idle = 0}};
}

void publish_step(benchmark::State& state) {
  const Folder folder;
  StatusPublisher publisher({}, folder.environment(), DeviceKind::Cpu);
  std::int64_t number = 0;
  for (auto _ : state) publisher.on(step_number(++number));
}
BENCHMARK(publish_step);

void publish_step_while_somebody_reads(benchmark::State& state) {
  const Folder folder;
  StatusPublisher publisher({}, folder.environment(), DeviceKind::Cpu);
  std::atomic<bool> is_done = false;
  std::thread reader([&] {
    const UniqueFd file(::open(publisher.path().c_str(), O_RDONLY | O_CLOEXEC));
    while (!is_done) benchmark::DoNotOptimize(read_page(file.get()).state.step);
  });
  std::int64_t number = 0;
  for (auto _ : state) publisher.on(step_number(++number));
  is_done = true;
  reader.join();
}
BENCHMARK(publish_step_while_somebody_reads);

void publish_collective(benchmark::State& state) {
  const Folder folder;
  StatusPublisher publisher({}, folder.environment(), DeviceKind::Cpu);
  for (auto _ : state) {
    publisher.enter_collective("all_reduce");
    publisher.leave_collective();
  }
}
BENCHMARK(publish_collective);

void read_one_page(benchmark::State& state) {
  const Folder folder;
  StatusPublisher publisher({}, folder.environment(), DeviceKind::Cpu);
  publisher.on(step_number(1));
  const UniqueFd file(::open(publisher.path().c_str(), O_RDONLY | O_CLOEXEC));
  for (auto _ : state) benchmark::DoNotOptimize(read_page(file.get()).state.step);
}
BENCHMARK(read_one_page);

void find_one_job(benchmark::State& state) {
  const Folder folder;
  const StatusPublisher publisher({}, folder.environment(), DeviceKind::Cpu);
  for (auto _ : state) benchmark::DoNotOptimize(find_jobs_in({folder.parent()}).size());
}
BENCHMARK(find_one_job);

}  // namespace
}  // namespace lockstep::monitor
