#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/base/philox.h"
#include "lockstep/data/transform/decisions.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/data/transform/transform.h"

// Sets of pictures, pipelines for them, and what the host makes of some of their samples.
namespace lockstep::gpu {

inline constexpr std::array kPictureTypes{DataType::U8, DataType::F16, DataType::BF16,
                                          DataType::F32};

struct PictureCase {
  data::ImageSize size{};
  std::int64_t channels = 3;
  data::Pipeline pipeline{};
  std::uint64_t seed = 5;
  std::int64_t epoch = 1;
  std::int64_t set_size = 4;
  /// In no order, one of them twice.
  std::vector<std::int64_t> samples{2, 0, 3, 0};

  data::Field field() const { return {"image", DataType::U8, {size.height, size.width, channels}}; }
  std::int64_t picture_bytes() const { return size.height * size.width * channels; }

  std::vector<std::uint8_t> pixels() const {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(set_size * picture_bytes()));
    for (std::size_t i = 0; i < pixels.size(); i += 16) {
      const auto words = philox(seed, {static_cast<std::uint32_t>(i)});
      std::memcpy(pixels.data() + i, words.data(), std::min<std::size_t>(16, pixels.size() - i));
    }
    return pixels;
  }

  /// The batch as the host's transform makes it, channels-last.
  std::vector<std::byte> expected() const {
    auto channels_last = pipeline;
    channels_last.output.layout = data::Layout::ChannelsLast;
    const data::Transform transform(channels_last, field());
    const auto bytes = data::bytes_of(transform.output_field());
    const auto all = pixels();
    std::vector<std::byte> out(samples.size() * bytes);
    data::Scratch scratch;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto* picture = all.data() + samples[i] * picture_bytes();
      transform.apply(data::dense_view(picture, size, channels),
                      {.seed = seed,
                       .epoch = static_cast<std::uint32_t>(epoch),
                       .sample = static_cast<std::uint64_t>(samples[i])},
                      scratch, out.data() + i * bytes);
    }
    return out;
  }

  std::string text() const {
    auto text = data::describe(field());
    for (const auto& step : pipeline.steps) text += ", " + std::string(data::name_of(step));
    return text + " to " + std::string(lockstep::name_of(pipeline.output.type));
  }
};

/// Numbers for one random case.
class CaseChance {
 public:
  explicit CaseChance(std::uint32_t number) : number_(number) {}
  std::int64_t from(std::int64_t first, std::int64_t last) {
    const auto count = static_cast<std::uint32_t>(last - first + 1);
    return first + below(count, philox(99, {number_, next_++})[0]);
  }
  /// Extents that kernels have forms of their own for come often.
  std::int64_t extent(std::int64_t most) {
    const auto extent = from(1, most);
    return from(0, 2) == 0 ? (extent + 7) / 8 * 8 : extent;
  }

 private:
  std::uint32_t number_;
  std::uint32_t next_ = 0;
};

/// Adds a random step that moves pixels, to pictures of `size`, which becomes that after it.
inline void add_random_step(CaseChance& chance, data::ImageSize& size,
                            std::vector<data::Step>& steps) {
  const data::ImageSize next{chance.extent(40), chance.extent(70)};
  const auto padding = chance.from(0, 9);
  switch (chance.from(0, 6)) {
    case 0:
      steps.emplace_back(data::RandomHorizontalFlip{});
      return;
    case 1:
      size = {std::min(next.height, size.height + 2 * padding),
              std::min(next.width, size.width + 2 * padding)};
      steps.emplace_back(data::RandomCrop{size.height, size.width, padding});
      return;
    case 2:
      size = {std::min(next.height, size.height), std::min(next.width, size.width)};
      steps.emplace_back(data::CenterCrop{size.height, size.width});
      return;
    case 3:
      size = next;
      steps.emplace_back(data::Resize{size.height, size.width});
      return;
    case 4:
      size = next;
      steps.emplace_back(data::RandomResizedCrop{.height = size.height, .width = size.width});
      return;
    case 5:
      steps.emplace_back(data::ResizeShorter{next.height});
      size = data::with_shorter_side(size, next.height);
      return;
    default:
      size.width = next.width;  // one dimension alone
      steps.emplace_back(data::Resize{size.height, size.width});
  }
}

inline data::Normalize random_normalize(CaseChance& chance, std::int64_t channels) {
  data::Normalize normalize;
  for (std::int64_t c = 0; c < channels; ++c) {
    normalize.mean.push_back(static_cast<float>(chance.from(0, 99)) / 100.0F);
    normalize.deviation.push_back(static_cast<float>(chance.from(1, 99)) / 100.0F);
  }
  return normalize;
}

/// A picture of all levels, normalized by extreme numbers: the reciprocals of some are no numbers,
/// and those of the rest leave no quotient exact by chance.
inline PictureCase extreme_case(std::uint32_t number) {
  const auto words = philox(12, {number});
  const auto exponent = number % 3 == 0 ? 0 : 100 + words[2] % 60;
  const auto deviation = std::bit_cast<float>((exponent << 23) | (words[0] >> 9) | 1U);
  PictureCase one{.size = {48, 48}, .channels = 1, .set_size = 1, .samples = {0}};
  one.seed = number;
  one.pipeline = {{data::Normalize{{unit_float(words[1])}, {deviation}}},
                  {kPictureTypes[1 + number / 3 % 3], {}}};
  return one;
}

inline PictureCase random_picture_case(std::uint32_t number) {
  CaseChance chance(number);
  constexpr std::array<std::int64_t, 4> kChannels{1, 3, 4, 5};
  PictureCase one{.size = {chance.extent(40), chance.extent(70)},
                  .channels = kChannels[static_cast<std::size_t>(chance.from(0, 3))]};
  one.seed = number;
  auto size = one.size;
  auto& steps = one.pipeline.steps;
  for (auto count = chance.from(0, 5); count > 0; --count) {
    add_random_step(chance, size, steps);
    // A longer side that grew out of all proportion is for tests of sizes.
    if (size.width > 400 || size.height > 400) {
      size = {std::min<std::int64_t>(size.height, 33), std::min<std::int64_t>(size.width, 47)};
      steps.emplace_back(data::CenterCrop{size.height, size.width});
    }
  }
  if (chance.from(0, 1) == 1) steps.emplace_back(random_normalize(chance, one.channels));
  if (chance.from(0, 2) == 2) steps.emplace_back(data::RandomErasing{.probability = 0.9});
  one.pipeline.output.type = kPictureTypes[static_cast<std::size_t>(chance.from(0, 3))];
  return one;
}

/// What is made of CIFAR and MNIST by default, and by what users ask for most.
inline std::vector<PictureCase> preset_cases() {
  using data::Augment;
  std::vector<PictureCase> cases;
  const auto add = [&](data::ImageSize size, const data::Normalize& normalize) {
    const auto channels = static_cast<std::int64_t>(normalize.mean.size());
    const PictureCase base{.size = size, .channels = channels};
    for (const auto type : kPictureTypes) {
      for (const auto augment : {Augment::None, Augment::Flip, Augment::Standard}) {
        for (const data::ImageSize wanted : {data::ImageSize{}, {64, 64}, {48, 56}, {24, 24}}) {
          cases.push_back(base);
          cases.back().pipeline = data::training_pipeline(
              augment, base.field(),
              {.size = wanted, .normalize = normalize, .output = {type, {}}});
        }
      }
      cases.push_back(base);
      cases.back().pipeline = data::tutorial_pipeline();
      cases.back().pipeline.output.type = type;
      cases.push_back(base);
      cases.back().pipeline = {{data::RandomResizedCrop{.height = 32, .width = 32},
                                data::RandomHorizontalFlip{}, normalize, data::RandomErasing{}},
                               {type, {}}};
    }
  };
  add({32, 32}, data::cifar10_normalize());
  add({28, 28}, data::fashion_mnist_normalize());
  add({37, 29}, data::imagenet_normalize());
  return cases;
}

/// Pictures that are too large for one block, or for the memory of a block.
inline std::vector<PictureCase> large_cases() {
  using namespace data;
  const auto normalize = imagenet_normalize();
  std::vector<PictureCase> cases{
      {.size = {375, 500},
       .pipeline = {{RandomResizedCrop{.height = 224, .width = 224}, RandomHorizontalFlip{},
                     normalize, RandomErasing{.probability = 1}},
                    {DataType::BF16, {}}}},
      {.size = {375, 500},
       .pipeline = {{ResizeShorter{256}, CenterCrop{224, 224}, normalize}, {DataType::F16, {}}}},
      {.size = {300, 301},
       .pipeline = {{RandomCrop{320, 310, 16}, RandomHorizontalFlip{}}, {DataType::F32, {}}}},
      {.size = {120, 160},
       .pipeline = {{Resize{200, 333}, RandomCrop{190, 200, 0}, Resize{97, 401},
                     CenterCrop{90, 400}, RandomHorizontalFlip{}, Resize{64, 64}},
                    {DataType::F32, {}}}},
      // More rows for one than a block has memory for.
      {.size = {3000, 21},
       .pipeline = {{RandomHorizontalFlip{}, Resize{3, 14}, normalize}, {DataType::BF16, {}}}},
      {.size = {2000, 8},
       .channels = 1,
       .pipeline = {{RandomResizedCrop{.height = 2, .width = 40}}, {DataType::U8, {}}}},
      {.size = {3, 2500}, .pipeline = {{Resize{5, 4}}, {DataType::U8, {}}}},
      {.size = {2, 9000}, .pipeline = {{RandomHorizontalFlip{}}, {DataType::F16, {}}}},
  };
  return cases;
}

}  // namespace lockstep::gpu
