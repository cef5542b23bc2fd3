// Batch normalization on a GPU, beside a plain copy of the same machine: the layers of ResNet-101
// on 64x64 pictures, 64 groups of 64 samples, bf16. GB/s count each input once and each output
// once. Last come other paths for the shapes that matter most.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "bench/gpu/captured_timing.h"
#include "lockstep/base/error.h"
#include "lockstep/base/half.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/gpu/layers/batch_norm_paths.h"
#include "lockstep/gpu/memory.h"

namespace {

using namespace lockstep;
using namespace lockstep::gpu;

constexpr std::int64_t kGroups = 64;
constexpr std::int64_t kPoolBytes = std::int64_t{1} << 30;
constexpr std::int64_t kBeyondCache = std::int64_t{160} << 20;
constexpr std::chrono::seconds kEnoughSweeping{28};

/// A shape of the network, and how many of its layers have it.
struct Layer {
  std::int64_t rows;
  std::int64_t channels;
  int with_relu;  ///< the two inside a block, and the first of the network
  int with_add;   ///< the last of a block: a residual and a ReLU follow
  int alone;      ///< on a shortcut: nothing follows
};

constexpr std::array kLayers{
    Layer{65536, 64, 1, 0, 0},  Layer{16384, 64, 6, 0, 0},  Layer{16384, 256, 0, 3, 1},
    Layer{16384, 128, 1, 0, 0}, Layer{4096, 128, 7, 0, 0},  Layer{4096, 512, 0, 4, 1},
    Layer{4096, 256, 1, 0, 0},  Layer{1024, 256, 45, 0, 0}, Layer{1024, 1024, 0, 23, 1},
    Layer{1024, 512, 1, 0, 0},  Layer{256, 512, 5, 0, 0},   Layer{256, 2048, 0, 3, 1}};

enum class Pass { Forward, ForwardAdd, Backward, BackwardAdd };

struct PassFacts {
  Pass pass;
  const char* name;
  int tensors;  ///< read or written
};

constexpr std::array kPasses{PassFacts{Pass::Forward, "forward relu", 2},
                             PassFacts{Pass::ForwardAdd, "forward add relu", 3},
                             PassFacts{Pass::Backward, "backward relu", 3},
                             PassFacts{Pass::BackwardAdd, "backward add relu, 2 dy", 5}};

NormShape shape_of(const Layer& layer, std::int64_t groups) {
  return {.type = DataType::BF16, .groups = groups, .rows = layer.rows, .channels = layer.channels};
}

std::int64_t bytes_of(const NormShape& shape) {
  return 2 * shape.groups * shape.rows * shape.channels;
}

/// Enough calls' tensors that none is still in the cache when its turn comes again.
int sets_of(const NormShape& shape) {
  const auto bytes = bytes_of(shape);
  const auto wanted = std::max<std::int64_t>(2, (kBeyondCache + bytes - 1) / bytes);
  return static_cast<int>(std::min(wanted, kPoolBytes / bytes));
}

/// About normal numbers, the same again and again.
DeviceMemory random_pool(unsigned seed) {
  constexpr std::size_t kPattern = std::size_t{32} << 20;
  std::vector<BFloat16> pattern(kPattern / sizeof(BFloat16));
  std::minstd_rand generator(seed);
  std::uniform_real_distribution<float> part(-1, 1);
  for (auto& value : pattern) {
    value = to_bfloat16(0.25F + part(generator) + part(generator) + part(generator));
  }
  DeviceMemory pool(kPoolBytes);
  for (std::size_t at = 0; at < kPoolBytes; at += kPattern) {
    copy_to_device(pattern.data(), pool.data() + at, kPattern, nullptr);
  }
  wait_for(nullptr);
  return pool;
}

DeviceMemory random_floats(std::size_t count, unsigned seed, float from, float to) {
  std::vector<float> values(count);
  std::minstd_rand generator(seed);
  std::uniform_real_distribution<float> distribution(from, to);
  for (auto& value : values) value = distribution(generator);
  DeviceMemory memory(count * sizeof(float));
  copy_to_device(values.data(), memory.data(), memory.bytes(), nullptr);
  wait_for(nullptr);
  return memory;
}

std::size_t largest_workspace() {
  std::size_t bytes = 0;
  for (const auto& layer : kLayers) {
    bytes = std::max(bytes, norm_workspace_bytes(shape_of(layer, kGroups)));
  }
  return bytes;
}

class Tensors {
 public:
  NormForward forward(const NormShape& shape, int set, bool adds) const {
    return {.shape = shape,
            .parameters = {weight_.as<float>(), bias_.as<float>()},
            .activation = NormActivation::Relu,
            .x = part(x_, shape, set),
            .residual = adds ? part(first_, shape, set) : nullptr,
            .y = part(out_, shape, set),
            .marks = adds ? static_cast<std::uint8_t*>(part(third_, shape, set)) : nullptr,
            .statistics = {mean_.as<float>(), inverse_.as<float>()},
            .running = {running_mean_.as<float>(), running_variance_.as<float>(), 0.1F, 8},
            .workspace = workspace_.data()};
  }

  /// With gradients of two users, and one for the residual, where one was added.
  NormBackward backward(const NormShape& shape, int set, bool adds) const {
    return {.shape = shape,
            .parameters = {weight_.as<float>(), bias_.as<float>()},
            .activation = NormActivation::Relu,
            .x = part(x_, shape, set),
            .marks = adds ? static_cast<std::uint8_t*>(part(second_, shape, set)) : nullptr,
            .statistics = {mean_.as<float>(), inverse_.as<float>()},
            .dy = part(first_, shape, set),
            .second_dy = adds ? part(third_, shape, set) : nullptr,
            .dx = part(out_, shape, set),
            .residual_gradient = adds ? part(second_out_, shape, set) : nullptr,
            .weight_gradient = gradients_.as<float>(),
            .bias_gradient = gradients_.as<float>() + kMostChannels,
            .workspace = workspace_.data()};
  }

 private:
  static constexpr std::size_t kMostChannels = 2048;
  static void* part(const DeviceMemory& pool, const NormShape& shape, int set) {
    return pool.data() + set * bytes_of(shape);
  }

  DeviceMemory x_ = random_pool(1);
  DeviceMemory first_ = random_pool(2);
  DeviceMemory second_ = random_pool(3);
  DeviceMemory third_ = random_pool(4);
  DeviceMemory out_{kPoolBytes};
  DeviceMemory second_out_{kPoolBytes};
  DeviceMemory weight_ = random_floats(kMostChannels, 5, 0.5F, 1.5F);
  DeviceMemory bias_ = random_floats(kMostChannels, 6, -0.5F, 0.5F);
  DeviceMemory mean_ = random_floats(kGroups * kMostChannels, 7, 0.2F, 0.3F);
  DeviceMemory inverse_ = random_floats(kGroups * kMostChannels, 8, 0.9F, 1.1F);
  DeviceMemory running_mean_ = random_floats(kMostChannels, 9, -1, 1);
  DeviceMemory running_variance_ = random_floats(kMostChannels, 10, 0.5F, 1.5F);
  DeviceMemory gradients_{2 * kMostChannels * sizeof(float)};
  DeviceMemory workspace_{largest_workspace()};
};

bool is_forward(Pass pass) {
  return pass == Pass::Forward || pass == Pass::ForwardAdd;
}

bool adds(Pass pass) {
  return pass == Pass::ForwardAdd || pass == Pass::BackwardAdd;
}

NormPath path_of(const Tensors& tensors, const NormShape& shape, Pass pass) {
  return is_forward(pass) ? norm_path_of(tensors.forward(shape, 0, adds(pass)))
                          : norm_path_of(tensors.backward(shape, 0, adds(pass)));
}

/// Whether the small kernels over groups, which no path changes, are timed too.
enum class Scope { WholeCall, WithoutGroups };

void run(const Tensors& tensors, const NormShape& shape, Pass pass, const NormPath& path,
         Scope scope, int set, Stream stream) {
  if (is_forward(pass)) {
    auto call = tensors.forward(shape, set, adds(pass));
    if (scope == Scope::WithoutGroups) call.running = {};
    norm_forward(call, path, stream);
  } else {
    auto call = tensors.backward(shape, set, adds(pass));
    if (scope == Scope::WithoutGroups) call.weight_gradient = call.bias_gradient = nullptr;
    norm_backward(call, path, stream);
  }
}

double time_of(const Tensors& tensors, const NormShape& shape, Pass pass, const NormPath& path,
               Scope scope, Stream stream) {
  run(tensors, shape, pass, path, scope, 0, stream);  // loads the kernel, which no capture may do
  wait_for(stream);
  return bench::microseconds_of(stream, sets_of(shape), [&](int set) {
    run(tensors, shape, pass, path, scope, set, stream);
  });
}

struct Ceiling {
  double bytes_per_second;
  double percent(double bytes, double microseconds) const {
    return 100 * bytes / (microseconds * 1e-6) / bytes_per_second;
  }
};

/// The layers of each kind, in the order of `kPasses`: those alone go through the same kernels as
/// those with a ReLU.
int count_of(const Layer& layer, Pass pass) {
  return adds(pass) ? layer.with_add : layer.with_relu + layer.alone;
}

void print_layers(const Tensors& tensors, const Ceiling& ceiling, Stream stream) {
  fmt::print("{:<12} {:<24} {:>8} {:>7} {:>6} | {:>10} {:>6}  {}\n", "rows x ch", "pass", "us",
             "GB/s", "copy", "first kernel", "copy", "path");
  std::map<Pass, double> total;
  std::map<Pass, double> least;
  for (const auto& layer : kLayers) {
    const auto shape = shape_of(layer, kGroups);
    for (const auto& [pass, name, tensor_count] : kPasses) {
      if (count_of(layer, pass) == 0) continue;
      const auto path = path_of(tensors, shape, pass);
      const auto time = time_of(tensors, shape, pass, path, Scope::WholeCall, stream);
      const auto alone = time_of(tensors, shape, pass, path, Scope::WithoutGroups, stream);
      const auto bytes = static_cast<double>(tensor_count * bytes_of(shape));
      fmt::print("{:<12} {:<24} {:>8.1f} {:>7.0f} {:>5.0f}% | {:>9.1f} us {:>5.0f}%  {}\n",
                 fmt::format("{}x{}", layer.rows, layer.channels), name, time, bytes / time / 1e3,
                 ceiling.percent(bytes, time), alone, ceiling.percent(bytes, alone),
                 to_string(path));
      total[pass] += count_of(layer, pass) * time;
      least[pass] += count_of(layer, pass) * bytes / ceiling.bytes_per_second * 1e6;
    }
  }
  fmt::print("\na step of ResNet-101:\n");
  double sum = 0;
  double floor = 0;
  for (const auto& facts : kPasses) {
    fmt::print("  {:<24} {:>9.0f} us, at the speed of a copy {:>9.0f}\n", facts.name,
               total[facts.pass], least[facts.pass]);
    sum += total[facts.pass];
    floor += least[facts.pass];
  }
  fmt::print("  {:<24} {:>9.0f} us, at the speed of a copy {:>9.0f}\n\n", "all", sum, floor);
}

/// Neither mostly empty, nor with much to read twice.
bool is_worth_trying(const NormShape& shape, const NormPath& path) {
  const auto kept = std::int64_t{path.threads} * path.packets;
  const auto needed = shape.rows * path.lanes / path.cluster;
  const auto most_chunks = shape.rows >= 16384 ? 4 : 1;
  return path.lanes >= 2 && needed * 2 >= kept && needed <= most_chunks * kept;
}

struct Trial {
  double time;
  NormPath path;
};

std::vector<Trial> try_paths(const Tensors& tensors, const NormShape& shape, Pass pass,
                             Stream stream) {
  std::vector<Trial> trials;
  auto paths = resident_paths(shape, 16);
  paths.push_back({});
  for (const auto& path : paths) {
    if (path.kind == NormPathKind::Resident && !is_worth_trying(shape, path)) continue;
    try {
      trials.push_back({time_of(tensors, shape, pass, path, Scope::WithoutGroups, stream), path});
    } catch (const Error& error) {
      fmt::print("  {} does not run: {}\n", to_string(path), error.what());
    }
  }
  std::sort(trials.begin(), trials.end(),
            [](const Trial& left, const Trial& right) { return left.time < right.time; });
  return trials;
}

/// The best paths, and where the chosen one and the streaming one stand.
void print_trials(const std::vector<Trial>& trials, double bytes, const Ceiling& ceiling,
                  const NormPath& chosen) {
  constexpr std::size_t kBest = 8;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const auto& [time, path] = trials[i];
    if (i >= kBest && path != chosen && path.kind == NormPathKind::Resident) continue;
    fmt::print("  {:>3}. {:>8.1f} us {:>5.0f}%  {}{}\n", i + 1, time, ceiling.percent(bytes, time),
               to_string(path), path == chosen ? "  <- chosen" : "");
  }
}

void print_sweep(const Tensors& tensors, const Ceiling& ceiling, Stream stream) {
  constexpr std::int64_t kTensorBytes = std::int64_t{128} << 20;
  constexpr std::array kImportant{Layer{1024, 1024, 0, 1, 1}, Layer{1024, 256, 1, 0, 0},
                                  Layer{16384, 256, 0, 1, 1}, Layer{4096, 512, 0, 1, 1},
                                  Layer{16384, 64, 1, 0, 0},  Layer{65536, 64, 1, 0, 0}};
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& layer : kImportant) {
    const auto groups = std::min(kGroups, kTensorBytes / bytes_of(shape_of(layer, 1)));
    const auto shape = shape_of(layer, groups);
    for (const auto& [pass, name, tensor_count] : kPasses) {
      if (count_of(layer, pass) == 0) continue;
      if (std::chrono::steady_clock::now() - begin > kEnoughSweeping) {
        fmt::print("no time is left for {}x{} {}\n", layer.rows, layer.channels, name);
        continue;
      }
      fmt::print("{} groups of {}x{}, {}:\n", groups, layer.rows, layer.channels, name);
      const auto chosen = path_of(tensors, shape, pass);
      print_trials(try_paths(tensors, shape, pass, stream),
                   static_cast<double>(tensor_count * bytes_of(shape)), ceiling, chosen);
    }
  }
}

}  // namespace

int main() {
  if (count_devices() == 0) {
    fmt::print("there is no GPU here\n");
    return EXIT_SUCCESS;
  }
  try {
    const bench::OwnStream stream;
    const Ceiling ceiling{bench::copy_bandwidth(stream.get())};
    fmt::print("{}: a copy moves {:.0f} GB/s, read and written\n\n", describe_device(0).name,
               ceiling.bytes_per_second / 1e9);
    const Tensors tensors;
    print_layers(tensors, ceiling, stream.get());
    print_sweep(tensors, ceiling, stream.get());
  } catch (const Error& error) {
    fmt::print("{}\n", describe(error));
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
