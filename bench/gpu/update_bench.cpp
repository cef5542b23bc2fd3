// What becomes of gradients on a GPU, beside a plain copy of the same machine: rows as long as
// those of ResNet-50 and ResNet-101, in their tensors, verified before they are timed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "bench/gpu/captured_timing.h"
#include "lockstep/base/half.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/gpu/memory.h"
#include "lockstep/gpu/update/leaf.h"
#include "lockstep/gpu/update/update.h"

namespace {

using namespace lockstep;
using namespace lockstep::gpu;

constexpr int kSets = 2;  // of rows, larger than the cache each

/// The parameters of a ResNet with bottlenecks.
std::vector<std::int64_t> resnet(const std::vector<int>& blocks) {
  std::vector<std::int64_t> counts;
  const auto norm = [&](std::int64_t channels) { counts.insert(counts.end(), 2, channels); };
  const auto conv = [&](std::int64_t from, std::int64_t to, std::int64_t kernel) {
    counts.push_back(from * to * kernel * kernel);
    norm(to);
  };
  conv(3, 64, 7);
  std::int64_t from = 64;
  std::int64_t width = 64;
  for (const int stage : blocks) {
    for (int block = 0; block < stage; ++block) {
      conv(from, width, 1);
      conv(width, width, 3);
      conv(width, 4 * width, 1);
      if (block == 0) conv(from, 4 * width, 1);
      from = 4 * width;
    }
    width *= 2;
  }
  counts.push_back(from * 1000);
  counts.push_back(1000);
  return counts;
}

std::vector<Extent> laid_out(const std::vector<std::int64_t>& counts) {
  std::vector<Extent> extents;
  std::int64_t first = 0;
  for (const auto count : counts) {
    extents.push_back({first, count});
    first += (count + 15) / 16 * 16;
  }
  return extents;
}

/// Numbers of a few orders of magnitude, cheaply.
std::vector<float> random_floats(std::size_t count, std::uint32_t seed, float most = 0.1F) {
  std::vector<float> values(count);
  auto state = seed * 2654435761U + 1;
  for (auto& value : values) {
    state = state * 1664525U + 1013904223U;
    const auto uniform = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
    value = uniform * most * ((state & 0xc0U) != 0 ? 1.0F : 0.01F);
  }
  return values;
}

template <typename T>
DeviceMemory on_device(const std::vector<T>& values) {
  DeviceMemory memory(values.size() * sizeof(T));
  copy_to_device(values.data(), memory.data(), memory.bytes(), nullptr);
  wait_for(nullptr);
  return memory;
}

template <typename T>
std::vector<T> on_host(const DeviceMemory& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  copy_to_host(memory.data(), values.data(), memory.bytes(), nullptr);
  wait_for(nullptr);
  return values;
}

/// The rows of one training.
struct Rows {
  Rows(std::size_t count, std::uint32_t seed)
      : sum(on_device(random_floats(count, seed))),
        weights(on_device(random_floats(count, seed + 1))),
        first(on_device(random_floats(count, seed + 2))),
        second(on_device(squares(random_floats(count, seed + 3)))),
        average(on_device(random_floats(count, seed + 4))),
        half(count * sizeof(std::uint16_t)),
        gradient(on_device(halves(random_floats(count, seed + 5)))) {}

  static std::vector<float> squares(std::vector<float> values) {
    for (auto& value : values) value *= value;
    return values;
  }
  static std::vector<BFloat16> halves(const std::vector<float>& values) {
    std::vector<BFloat16> result(values.size());
    std::ranges::transform(values, result.begin(), to_bfloat16);
    return result;
  }

  DeviceMemory sum, weights, first, second, average, half, gradient;
};

class Bench {
 public:
  Bench(std::string name, const std::vector<std::int64_t>& counts, double bandwidth, Stream stream)
      : name_(std::move(name)),
        stream_(stream),
        bandwidth_(bandwidth),
        extents_(laid_out(counts)),
        num_weights_(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})),
        row_(static_cast<std::size_t>(extents_.back().first + extents_.back().count)),
        table_(cut_into_chunks(extents_)),
        chunks_(on_device(table_)),
        ranges_(on_device(chunk_ranges(extents_))),
        changed_(on_device(std::vector<float>(counts.size(), 1))),
        counts_(on_device(std::vector<std::int64_t>(counts.size()))),
        losses_(on_device(std::vector<float>(8, 1))),
        measured_(on_device(std::vector<ChunkMeasure>(table_.size()))),
        trust_sums_(on_device(std::vector<optimizer::TrustSums>(table_.size()))),
        trust_(on_device(std::vector<double>(counts.size(), 1))),
        control_(on_device(std::vector<StepControl>(1))) {
    for (int set = 0; set < kSets; ++set) {
      sets_.emplace_back(row_, static_cast<std::uint32_t>(10 * set));
      tensors_.push_back(on_device(leaf_tensors(sets_.back())));
    }
    fmt::print("{}: {:.1f} M parameters in {} tensors, {} chunks\n", name_,
               static_cast<double>(num_weights_) * 1e-6, counts.size(), table_.size());
  }

  void run() {
    verify();
    leaves();
    measures();
    updates();
    whole_steps();
  }

 private:
  std::vector<LeafTensor> leaf_tensors(const Rows& rows) const {
    std::vector<LeafTensor> tensors;
    for (const auto& extent : extents_) {
      tensors.push_back({.data = rows.gradient.as<std::uint16_t>() + extent.first,
                         .first = extent.first,
                         .type = DataType::BF16});
    }
    return tensors;
  }

  Chunks chunks() const { return {chunks_.as<Chunk>(), static_cast<std::int32_t>(table_.size())}; }
  std::int32_t num_parameters() const { return static_cast<std::int32_t>(extents_.size()); }
  Rows& set_of(int set) { return sets_[static_cast<std::size_t>(set)]; }

  /// A row that says nothing new but to those who count bytes.
  void time(const std::string& what, std::int64_t bytes_per_element,
            const std::function<void(int set)>& work) {
    const auto time = bench::microseconds_of(stream_, kSets, work);
    const auto bytes = static_cast<double>(bytes_per_element * num_weights_);
    const auto rate = bytes / (time * 1e-6);
    fmt::print("  {:34} {:3} B {:9.1f} us {:8.0f} GB/s {:6.1f} % of copy\n", what,
               bytes_per_element, time, rate * 1e-9, 100 * rate / bandwidth_);
  }

  GatherCall gather_call(int set, Combine combine) {
    return {.tensors = tensors_[static_cast<std::size_t>(set)].as<LeafTensor>(),
            .chunks = chunks(),
            .leaf_type = DataType::BF16,
            .combine = combine,
            .node = set_of(set).sum.as<float>(),
            .control = control_.as<StepControl>()};
  }

  void fill_table(const Optimizer& optimizer) {
    const std::vector<optimizer::ParameterSettings> settings(
        extents_.size(), {.lr = optimizer.lr(), .weight_decay = optimizer.weight_decay()});
    const std::vector<std::int64_t> counts(extents_.size(), 10);
    const std::vector<double> factors(1, 1);
    std::vector<Coefficients> table(extents_.size());
    fill_coefficients({optimizer, settings, counts, factors, Skips::Never}, table);
    coefficients_ = on_device(table);
  }

  UpdateCall update_call(const Optimizer& optimizer, int set, std::int64_t divisor = 8) {
    const auto& rows = set_of(set);
    const auto states = optimizer.num_states();
    return {.rules = update_constants(optimizer, divisor, 8),
            .rows = {.sum = rows.sum.as<float>(),
                     .weights = rows.weights.as<float>(),
                     .first = states > 0 ? rows.first.as<float>() : nullptr,
                     .second = states > 1 ? rows.second.as<float>() : nullptr,
                     .average = optimizer.average_decay() ? rows.average.as<float>() : nullptr,
                     .half = rows.half.data(),
                     .half_type = DataType::BF16},
            .chunks = chunks(),
            .num_parameters = num_parameters(),
            .changed = changed_.as<float>(),
            .coefficients = coefficients_.as<Coefficients>(),
            .trust = trust_.as<double>(),
            .control = control_.as<StepControl>()};
  }

  /// A step of AdamW against the CPU's, bit by bit.
  void verify() {
    const auto optimizer = AdamW({.weight_decay = 0.05});
    fill_table(optimizer);
    const auto& rows = set_of(0);
    auto sum = on_host<float>(rows.sum);
    auto weights = on_host<float>(rows.weights);
    auto first = on_host<float>(rows.first);
    auto second = on_host<float>(rows.second);
    gpu::update(update_call(optimizer, 0), stream_);
    wait_for(stream_);
    optimizer::divide(8, sum);
    optimizer::update(optimizer,
                      {.gradient = sum,
                       .weights = weights,
                       .next_weights = weights,
                       .state = {first, second},
                       .next_state = {first, second}},
                      {.lr = optimizer.lr(), .weight_decay = 0.05, .count = 11}, 1, 1);
    std::size_t different = 0;
    const auto found = on_host<float>(rows.weights);
    for (const auto& extent : extents_) {
      const auto at = static_cast<std::size_t>(extent.first);
      const auto bytes = static_cast<std::size_t>(extent.count) * sizeof(float);
      if (std::memcmp(&found[at], &weights[at], bytes) != 0) ++different;
    }
    if (different == 0) return;
    fmt::print("update_bench: {} tensors differ from the CPU's\n", different);
    std::exit(1);
  }

  void leaves() {
    time("gather bf16, write", 6,
         [&](int set) { gather(gather_call(set, Combine::Write), stream_); });
    time("gather bf16, add", 10, [&](int set) { gather(gather_call(set, Combine::Add), stream_); });
    time("add_rows", 12, [&](int set) {
      add_rows(set_of(set).average.as<float>(), set_of(set).sum.as<float>(),
               static_cast<std::int64_t>(row_), stream_);
    });
  }

  void decide_step() {
    decide({.measured = measured_.as<ChunkMeasure>(),
            .num_chunks = static_cast<std::int32_t>(table_.size()),
            .losses = losses_.as<float>(),
            .num_losses = 8,
            .rules = {.clip_norm = 1, .has_loss_scaling = true}},
           control_.as<StepControl>(), stream_);
  }

  void measure_set(int set) {
    measure(set_of(set).sum.as<float>(), 8, chunks(), measured_.as<ChunkMeasure>(), stream_);
  }

  void measures() {
    time("measure", 4, [&](int set) { measure_set(set); });
    time("decide: clip, overflow", 0, [&](int) { decide_step(); });
    const auto lamb = LAMB();
    fill_table(lamb);
    time("measure_trust", 16, [&](int set) {
      measure_trust(update_call(lamb, set), trust_sums_.as<optimizer::TrustSums>(), stream_);
    });
    time("find_trust", 0, [&](int) {
      find_trust(trust_sums_.as<optimizer::TrustSums>(), ranges_.as<ChunkRange>(), num_parameters(),
                 trust_.as<double>(), stream_);
    });
  }

  void time_update(const std::string& what, const Optimizer& optimizer, std::int64_t bytes,
                   std::int64_t divisor = 8) {
    fill_table(optimizer);
    time(what, bytes, [&](int set) { gpu::update(update_call(optimizer, set, divisor), stream_); });
  }

  void updates() {
    time_update("update SGD", SGD(), 14);
    time_update("update SGD, momentum", SGD({.momentum = 0.9}), 22);
    time_update("update Adam", Adam(), 30);
    time_update("update AdamW", AdamW(), 30);
    time_update("update AdamW, divided by 6", AdamW(), 30, 6);
    time_update("update AdamW, average", AdamW().average_weights(0.999), 38);
    time_update("update LAMB", LAMB(), 30);
  }

  /// One replica, everything that a step does after its backward pass.
  void whole_steps() {
    const auto optimizer = AdamW();
    fill_table(optimizer);
    const EndStepCall finish{.changed = changed_.as<float>(),
                             .counts = counts_.as<std::int64_t>(),
                             .num_parameters = num_parameters(),
                             .rules = {.has_loss_scaling = true}};
    const auto begin = [&](int set) {
      begin_launch(control_.as<StepControl>(), stream_);
      gather(gather_call(set, Combine::Write), stream_);
    };
    const auto end = [&](int set) {
      gpu::update(update_call(optimizer, set), stream_);
      end_step(finish, control_.as<StepControl>(), stream_);
    };
    time("step: gather, update", 36, [&](int set) {
      begin(set);
      end(set);
    });
    time("step: with clipping and scaling", 40, [&](int set) {
      begin(set);
      measure_set(set);
      decide_step();
      end(set);
    });
  }

  std::string name_;
  Stream stream_;
  double bandwidth_;
  std::vector<Extent> extents_;
  std::int64_t num_weights_;
  std::size_t row_;
  std::vector<Chunk> table_;
  DeviceMemory chunks_, ranges_, changed_, counts_, losses_, measured_, trust_sums_, trust_;
  DeviceMemory control_, coefficients_;
  std::vector<Rows> sets_;
  std::vector<DeviceMemory> tensors_;
};

}  // namespace

int main() {
  if (count_devices() == 0) {
    fmt::print("update_bench: there is no GPU here\n");
    return 0;
  }
  const auto device = describe_device(0);
  const bench::OwnStream stream;
  const auto bandwidth = bench::copy_bandwidth(stream.get());
  fmt::print("{}, compute capability {}.{}: a copy moves {:.0f} GB/s, read and written\n",
             device.name, device.compute_major, device.compute_minor, bandwidth * 1e-9);
  Bench("ResNet-50", resnet({3, 4, 6, 3}), bandwidth, stream.get()).run();
  Bench("ResNet-101", resnet({3, 4, 23, 3}), bandwidth, stream.get()).run();
}
