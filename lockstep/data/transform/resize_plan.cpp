#include "lockstep/data/transform/resize_plan.h"

#include <algorithm>
#include <cmath>

namespace lockstep::data {
namespace {

constexpr int kWeightBits = 22;

double triangle(double x) {
  return std::max(0.0, 1.0 - std::abs(x));
}

WeightPair high_halves(std::int32_t first, std::int32_t second) {
  return {static_cast<std::int16_t>(first >> 8), static_cast<std::int16_t>(second >> 8)};
}

WeightPair low_halves(std::int32_t first, std::int32_t second) {
  return {static_cast<std::int16_t>(first & 0xff), static_cast<std::int16_t>(second & 0xff)};
}

WeightBits bits_of(const FilterTaps& filter) {
  std::int32_t all = 0;
  for (const auto weight : filter.weights) all |= weight;
  if ((all & 0x3fff) == 0) return WeightBits::Upper8;
  return (all & 0xff) == 0 ? WeightBits::Upper14 : WeightBits::All22;
}

/// What is left to be added to one byte of the result.
struct Lane {
  const std::int32_t* weights = nullptr;
  std::int64_t left = 0;
  std::int64_t position = 0;  ///< of the next tap, in bytes of the row
};

using Block = std::array<Lane, 4>;

class RowPlanner {
 public:
  RowPlanner(const ResizeKey& key, const FilterTaps& filter, RowPlan& plan)
      : key_(key), filter_(filter), plan_(plan) {}

  void run(std::int64_t lanes_used) {
    plan_.lanes_used = lanes_used;
    plan_.steps.clear();
    plan_.ends.clear();
    const auto bytes_per_group = RowPlan::kBlocks * lanes_used;
    for (std::int64_t at = 0; at < key_.count * key_.channels; at += bytes_per_group) {
      const auto first_step = plan_.steps.size();
      for (int block = 0; block < RowPlan::kBlocks; ++block) {
        add_block(first_step, block, block_at(at + block * lanes_used, lanes_used));
      }
      plan_.ends.push_back(static_cast<std::uint32_t>(plan_.steps.size()));
    }
  }

 private:
  Block block_at(std::int64_t byte, std::int64_t lanes_used) const {
    Block block;
    for (std::int64_t i = 0; i < lanes_used && byte + i < key_.count * key_.channels; ++i) {
      const auto& taps = filter_.taps[static_cast<std::size_t>((byte + i) / key_.channels)];
      block[static_cast<std::size_t>(i)] = {
          filter_.weights.data() + taps.weights, taps.count,
          taps.first * key_.channels + (byte + i) % key_.channels};
    }
    return block;
  }

  void add_block(std::size_t step, int number, Block block) {
    const auto is_left = [](const Lane& lane) { return lane.left > 0; };
    for (; std::any_of(block.begin(), block.end(), is_left); ++step) {
      if (step == plan_.steps.size()) add_empty_step();
      add_step(plan_.steps[step], number, block);
    }
  }

  void add_empty_step() {
    plan_.steps.emplace_back();
    plan_.steps.back().picks.fill(0x80);
  }

  /// Loads from the first tap that is left on, and takes from there what each lane needs next.
  void add_step(RowPlan::Step& step, int number, Block& block) const {
    auto offset = key_.in * key_.channels;
    for (const auto& lane : block) {
      if (lane.left > 0) offset = std::min(offset, lane.position);
    }
    // A load that ends with the row never reads beyond it, unless the row is shorter than a load.
    offset = std::clamp<std::int64_t>(key_.in * key_.channels - RowPlan::kLoad, 0, offset);
    step.offsets[static_cast<std::size_t>(number)] = static_cast<std::int32_t>(offset);
    for (std::size_t i = 0; i < block.size(); ++i) {
      const auto lane_number = static_cast<std::size_t>(number) * 4 + i;
      const auto first = take(block[i], offset, step.picks[4 * lane_number]);
      const auto second = take(block[i], offset, step.picks[4 * lane_number + 2]);
      step.high[lane_number] = high_halves(first, second);
      step.low[lane_number] = low_halves(first, second);
    }
  }

  /// The weight of the lane's next tap if the load holds it, and where it does; else 0.
  std::int32_t take(Lane& lane, std::int64_t offset, std::uint8_t& pick) const {
    if (lane.left == 0 || lane.position >= offset + RowPlan::kLoad) return 0;
    pick = static_cast<std::uint8_t>(lane.position - offset);
    lane.position += key_.channels;
    --lane.left;
    return *lane.weights++;
  }

  const ResizeKey& key_;
  const FilterTaps& filter_;
  RowPlan& plan_;
};

}  // namespace

void compute_taps(const ResizeKey& key, FilterTaps& result) {
  const auto scale = static_cast<double>(key.in) / static_cast<double>(key.out);
  const auto width = std::max(1.0, scale);
  const auto per_width = 1.0 / width;
  result.taps.clear();
  result.weights.clear();
  for (auto i = key.first; i < key.first + key.count; ++i) {
    const auto center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - width + 0.5), 0);
    const auto end = std::min(static_cast<std::int64_t>(center + width + 0.5), key.in);
    result.shares.clear();
    double sum = 0;
    for (auto x = first; x < end; ++x) {
      result.shares.push_back(triangle((static_cast<double>(x) - center + 0.5) * per_width));
      sum += result.shares.back();
    }
    Taps taps{first, 0, result.weights.size()};
    for (const auto share : result.shares) {
      result.weights.push_back(
          static_cast<std::int32_t>(0.5 + share / sum * (std::int32_t{1} << kWeightBits)));
    }
    while (result.weights.back() == 0) result.weights.pop_back();
    taps.count = static_cast<std::int64_t>(result.weights.size() - taps.weights);
    result.taps.push_back(taps);
  }
}

void plan_columns(const ResizeKey& key, FilterTaps& memory, ColumnPlan& plan) {
  plan.key = {};  // until it is whole: the memory may not suffice
  compute_taps(key, memory);
  plan.bits = bits_of(memory);
  plan.pairs.clear();
  plan.ends.clear();
  plan.first_row = memory.taps.front().first;
  plan.row_count = 0;
  for (const auto& taps : memory.taps) {
    const auto* weight = memory.weights.data() + taps.weights;
    for (std::int64_t i = 0; i < taps.count; i += 2) {
      const bool is_pair = i + 1 < taps.count;
      const auto row = taps.first + i - plan.first_row;
      const auto second = is_pair ? weight[i + 1] : 0;
      plan.pairs.push_back({row, is_pair ? row + 1 : row, high_halves(weight[i], second),
                            low_halves(weight[i], second)});
    }
    plan.ends.push_back(static_cast<std::uint32_t>(plan.pairs.size()));
    plan.row_count = std::max(plan.row_count, taps.first + taps.count - plan.first_row);
  }
  plan.key = key;
}

void plan_rows(const ResizeKey& key, FilterTaps& memory, RowPlan& plan) {
  plan.key = {};  // until it is whole: the memory may not suffice
  compute_taps(key, memory);
  plan.bits = bits_of(memory);
  RowPlanner planner(key, memory, plan);
  // Enlarging, a load holds the taps of all four bytes. Shrinking by 2 or more, it does not.
  planner.run(key.channels == 3 && key.in >= 2 * key.out ? 3 : 4);
  plan.key = key;
}

std::int64_t RowPlan::bytes_read() const noexcept {
  return std::max(key.in * key.channels, kLoad);
}

std::int64_t RowPlan::bytes_written() const noexcept {
  return static_cast<std::int64_t>(ends.size()) * kBlocks * lanes_used +
         (kLoad - kBlocks * lanes_used);
}

}  // namespace lockstep::data
