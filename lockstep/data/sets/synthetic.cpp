#include "lockstep/data/sets/synthetic.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/sampling/draws.h"

namespace lockstep::data {
namespace {

/// Knots of a class's pattern along each side; between them it is interpolated.
constexpr std::int64_t kKnots = 5;
constexpr int kOne = 256;  ///< 1.0 in the fixed point that patterns are interpolated in

enum Place : std::uint16_t { Pattern, Variation, Noise };

class Synthetic final : public Dataset {
 public:
  explicit Synthetic(const SyntheticOptions& options)
      : Dataset({{"image", DataType::U8, {options.height, options.width, options.channels}},
                 {"label", DataType::I64, {}}},
                class_names_of(options.classes)),
        options_(options) {
    draw_patterns();
  }

  std::int64_t size() const override { return options_.size; }

  void sample(std::int64_t index, Sample& sample) const override {
    const auto draws = draws_of(index);
    const auto label = static_cast<std::int64_t>(
        draws.below(Variation, 0, static_cast<std::uint32_t>(options_.classes)));
    sample.set<std::int64_t>(1, label);
    paint(label, draws, sample.write<std::uint8_t>(0));
  }

 private:
  /// How one sample differs from the pattern of its class.
  struct Change {
    std::int64_t shift_y, shift_x;  ///< in pixels, around the edges
    int contrast;                   ///< in 1/256
  };

  static std::vector<std::string> class_names_of(std::int64_t classes) {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < classes; ++i) names.push_back(fmt::format("class {}", i));
    return names;
  }

  Draws draws_of(std::int64_t index) const {
    return {.seed = options_.seed,
            .epoch = static_cast<std::uint32_t>(options_.split),
            .sample = static_cast<std::uint64_t>(index),
            .purpose = Purpose::Synthetic};
  }

  std::int64_t image_bytes() const { return options_.height * options_.width * options_.channels; }

  /// The patterns of all classes, at full size. Both splits have the same.
  void draw_patterns() {
    patterns_.resize(static_cast<std::size_t>(options_.classes * image_bytes()));
    auto* out = patterns_.data();
    for (std::int64_t label = 0; label < options_.classes; ++label) {
      const auto knots = draw_knots(label);
      for (std::int64_t y = 0; y < options_.height; ++y) {
        for (std::int64_t x = 0; x < options_.width; ++x) {
          for (std::int64_t c = 0; c < options_.channels; ++c) *out++ = between(knots, y, x, c);
        }
      }
    }
  }

  /// What a pattern is at its knots, row by row, the channels side by side.
  std::vector<std::int64_t> draw_knots(std::int64_t label) const {
    const Draws draws{.seed = options_.seed,
                      .epoch = static_cast<std::uint32_t>(label),
                      .sample = ~std::uint64_t{0},
                      .purpose = Purpose::Synthetic};
    std::vector<std::int64_t> knots;
    for (std::uint32_t i = 0; i < kKnots * kKnots * options_.channels; ++i) {
      knots.push_back(draws.word(Pattern, i) >> 24);
    }
    return knots;
  }

  /// Bilinear between knots, in integers: the same on every machine.
  std::uint8_t between(const std::vector<std::int64_t>& knots, std::int64_t y, std::int64_t x,
                       std::int64_t channel) const {
    const auto at_y = y * (kKnots - 1) * kOne / options_.height;
    const auto at_x = x * (kKnots - 1) * kOne / options_.width;
    const auto knot = [&](std::int64_t row, std::int64_t column) {
      return knots[static_cast<std::size_t>((row * kKnots + column) * options_.channels + channel)];
    };
    const auto row = at_y / kOne;
    const auto column = at_x / kOne;
    const auto part_y = at_y % kOne;
    const auto part_x = at_x % kOne;
    const auto above = knot(row, column) * (kOne - part_x) + knot(row, column + 1) * part_x;
    const auto below = knot(row + 1, column) * (kOne - part_x) + knot(row + 1, column + 1) * part_x;
    return static_cast<std::uint8_t>((above * (kOne - part_y) + below * part_y) / (kOne * kOne));
  }

  void paint(std::int64_t label, const Draws& draws, std::span<std::uint8_t> out) const {
    const Change change{
        draws.below(Variation, 1, static_cast<std::uint32_t>(options_.height / 4 + 1)),
        draws.below(Variation, 2, static_cast<std::uint32_t>(options_.width / 4 + 1)),
        static_cast<int>(128 + draws.below(Variation, 3, 128))};
    // A cheap generator for the noise, begun anew for each sample from the counter-based one.
    auto state = (std::uint64_t{draws.word(Noise, 0)} << 32) | draws.word(Noise, 1) | 1U;
    const auto* const from = patterns_.data() + label * image_bytes();
    const auto row_bytes = options_.width * options_.channels;
    auto* to = out.data();
    for (std::int64_t y = 0; y < options_.height; ++y) {
      const auto* const row = from + (y + change.shift_y) % options_.height * row_bytes;
      const auto shift = change.shift_x * options_.channels;
      for (std::int64_t i = 0; i < row_bytes; ++i) {
        const auto at = i + shift < row_bytes ? i + shift : i + shift - row_bytes;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const int noise = static_cast<int>(state >> 58) - 32;
        const int value = 128 + (row[at] - 128) * change.contrast / kOne + noise;
        *to++ = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }

  SyntheticOptions options_;
  std::vector<std::uint8_t> patterns_;
};

void check(const char* name, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorKind::Options,
              fmt::format("synthetic data: {}: expected 1 to {}, found {}", name, most, value));
}

}  // namespace

DatasetPtr synthetic(const SyntheticOptions& options) {
  check("size", options.size, std::int64_t{1} << 40);
  check("classes", options.classes, 100'000);
  check("height", options.height, 1 << 12);
  check("width", options.width, 1 << 12);
  check("channels", options.channels, 4);
  const auto bytes = options.height * options.width * options.channels * options.classes;
  check("bytes of all patterns (classes x height x width x channels)", bytes,
        std::int64_t{1} << 32);
  return std::make_shared<Synthetic>(options);
}

}  // namespace lockstep::data
