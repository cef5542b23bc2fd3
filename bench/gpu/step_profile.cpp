// Where the time of a training step goes on this machine's GPU, kernel by kernel: the tutorial's
// job, unless other numbers are given. CUPTI watches the last iteration, as libtorch's profiler
// calls it; kernels of a recorded launch appear one by one.

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lockstep/data/sets/synthetic.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/nn/zoo/zoo.h"
#include "lockstep/train/api/training_model.h"

namespace {

namespace profiler = torch::autograd::profiler;
using namespace lockstep;

struct Job {
  std::string model = "resnet101";
  std::int64_t image_size = 64;
  std::int64_t batch_size = 64;
  std::int64_t gradient_accumulation = 8;
  int replicas = 8;
  std::int64_t steps = 4;
  bool deterministic = false;
  bool data_on_device = false;
};

struct KernelTime {
  std::string name;
  std::int64_t calls = 0;
  double milliseconds = 0;
};

/// Of all that ran on the GPU while `action` did.
std::vector<KernelTime> times_of(const std::function<void()>& action) {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<torch::profiler::impl::ActivityType> activities{
      torch::profiler::impl::ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  action();
  const auto watched = profiler::disableProfiler();
  std::map<std::string, KernelTime> found;
  for (const auto& event : watched->events()) {
    if (event.deviceType() != at::kCUDA) continue;
    auto& time = found[event.name()];
    time.name = event.name();
    ++time.calls;
    time.milliseconds += 1e-6 * static_cast<double>(event.durationNs());
  }
  std::vector<KernelTime> times;
  for (auto& [name, time] : found) times.push_back(std::move(time));
  std::ranges::sort(times, std::greater(), &KernelTime::milliseconds);
  return times;
}

Options options_of(const Job& job) {
  Options options;
  options.device(DeviceKind::Cuda)
      .replicas(job.replicas)
      .gradient_accumulation(job.gradient_accumulation)
      .device_iterations(job.steps)
      .precision(Precision::P16_16);
  if (job.deterministic) options.deterministic();
  if (job.data_on_device) options.data_on_device();
  return options;
}

std::vector<KernelTime> profile(const Job& job) {
  const auto options = options_of(job);
  const auto samples = 3 * job.steps * job.replicas * job.gradient_accumulation * job.batch_size;
  const auto set = data::synthetic({.size = samples});
  const auto pipeline =
      data::training_pipeline(data::Augment::Flip, set->fields()[0],
                              {.size = data::ImageSize{job.image_size, job.image_size},
                               .normalize = data::imagenet_normalize(),
                               .output = {.type = DataType::U8}});
  DataLoader loader(options, set, {.batch_size = job.batch_size, .pipeline = pipeline});
  TrainingModel model(nn::make_network({.name = job.model,
                                        .classes = 10,
                                        .size = {.height = job.image_size, .width = job.image_size},
                                        .options = {}}),
                      options, AdamW({.lr = 1e-3}));
  auto iteration = loader.begin();
  for (int i = 0; i < 2; ++i, ++iteration) model.step(*iteration);
  return times_of([&] { model.step(*iteration); });
}

void print(const std::vector<KernelTime>& times, std::int64_t steps) {
  double total = 0;
  for (const auto& time : times) total += time.milliseconds;
  const auto per_step = 1 / static_cast<double>(steps);
  fmt::print("{:8.3f} ms a step in kernels and copies\n", total * per_step);
  fmt::print("{:>9} {:>6} {:>7}  {}\n", "ms/step", "share", "calls", "kernel");
  for (const auto& time : times) {
    if (time.milliseconds < 0.002 * total) continue;
    fmt::print("{:9.3f} {:5.1f}% {:7.1f}  {}\n", time.milliseconds * per_step,
               100 * time.milliseconds / total, static_cast<double>(time.calls) * per_step,
               time.name.substr(0, 150));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  CLI::App app("Where the time of a training step goes on a GPU, kernel by kernel");
  app.add_option("--model", job.model)->capture_default_str();
  app.add_option("--image-size", job.image_size)->capture_default_str();
  app.add_option("--batch-size", job.batch_size)->capture_default_str();
  app.add_option("--gradient-accumulation", job.gradient_accumulation)->capture_default_str();
  app.add_option("--replicas", job.replicas)->capture_default_str();
  app.add_option("--steps", job.steps, "that are launched at once")->capture_default_str();
  app.add_flag("--deterministic", job.deterministic);
  app.add_flag("--data-on-device", job.data_on_device);
  CLI11_PARSE(app, argc, argv);
  try {
    print(profile(job), job.steps);
  } catch (const Error& error) {
    fmt::print(stderr, "{}", describe(error));
    return exit_code(error.kind());
  }
  return 0;
}
