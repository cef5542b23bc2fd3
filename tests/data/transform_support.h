#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/half.h"
#include "lockstep/base/philox.h"
#include "lockstep/data/transform/decisions.h"
#include "lockstep/data/transform/transform.h"

// Pictures and a slow, obvious reference for what a pipeline makes of them.
namespace lockstep::data::plain {

struct Picture {
  ImageSize size;
  std::int64_t channels = 0;
  std::vector<std::uint8_t> pixels;

  Picture(ImageSize extents, std::int64_t channel_count)
      : size(extents),
        channels(channel_count),
        pixels(static_cast<std::size_t>(extents.height * extents.width * channel_count)) {}

  std::uint8_t& at(std::int64_t y, std::int64_t x, std::int64_t c) {
    return pixels[static_cast<std::size_t>((y * size.width + x) * channels + c)];
  }
  std::uint8_t at(std::int64_t y, std::int64_t x, std::int64_t c) const {
    return pixels[static_cast<std::size_t>((y * size.width + x) * channels + c)];
  }
  ImageView view() const { return dense_view(pixels.data(), size, channels); }
  Field field() const { return {"image", DataType::U8, {size.height, size.width, channels}}; }
  Field any_size_field() const {
    return {"image", DataType::U8, {0, 0, channels}, FieldKind::AnySizeImage};
  }
};

inline Picture noise(ImageSize size, std::int64_t channels, std::uint64_t seed) {
  Picture picture(size, channels);
  for (std::size_t i = 0; i < picture.pixels.size(); ++i) {
    picture.pixels[i] = static_cast<std::uint8_t>(philox(seed, {static_cast<std::uint32_t>(i)})[0]);
  }
  return picture;
}

inline std::vector<std::byte> apply(const Transform& transform, const Picture& picture,
                                    const Draws& draws = {}) {
  std::vector<std::byte> out(bytes_of(transform.output_field()));
  Scratch scratch;
  transform.apply(picture.view(), draws, scratch, out.data());
  return out;
}

inline std::vector<std::byte> as_bytes(const std::vector<std::uint8_t>& values) {
  std::vector<std::byte> bytes(values.size());
  std::memcpy(bytes.data(), values.data(), values.size());
  return bytes;
}

// The reference.

/// One dimension of Pillow's resize, written down from its definition.
std::vector<std::vector<std::int64_t>> inline pillow_weights(std::int64_t in, std::int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = scale < 1 ? 1 : scale;
  std::vector<std::vector<std::int64_t>> weights;
  for (std::int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    auto first = static_cast<std::int64_t>(center - support + 0.5);
    if (first < 0) first = 0;
    auto end = static_cast<std::int64_t>(center + support + 0.5);
    if (end > in) end = in;
    std::vector<double> shares(static_cast<std::size_t>(in), 0.0);
    double sum = 0;
    for (auto x = first; x < end; ++x) {
      double distance = (static_cast<double>(x) - center + 0.5) * (1.0 / support);
      if (distance < 0) distance = -distance;
      shares[static_cast<std::size_t>(x)] = distance < 1 ? 1 - distance : 0;
      sum += shares[static_cast<std::size_t>(x)];
    }
    auto& row = weights.emplace_back();
    for (const auto share : shares) {
      row.push_back(static_cast<std::int64_t>(0.5 + share / sum * (1 << 22)));
    }
  }
  return weights;
}

inline Picture resized(const Picture& in, ImageSize size) {
  Picture wide({in.size.height, size.width}, in.channels);
  const auto across = pillow_weights(in.size.width, size.width);
  for (std::int64_t y = 0; y < in.size.height; ++y) {
    for (std::int64_t x = 0; x < size.width; ++x) {
      for (std::int64_t c = 0; c < in.channels; ++c) {
        std::int64_t sum = 1 << 21;
        for (std::int64_t i = 0; i < in.size.width; ++i) {
          sum += in.at(y, i, c) * across[static_cast<std::size_t>(x)][static_cast<std::size_t>(i)];
        }
        wide.at(y, x, c) = static_cast<std::uint8_t>(sum >> 22);
      }
    }
  }
  Picture out(size, in.channels);
  const auto down = pillow_weights(in.size.height, size.height);
  for (std::int64_t y = 0; y < size.height; ++y) {
    for (std::int64_t x = 0; x < size.width; ++x) {
      for (std::int64_t c = 0; c < in.channels; ++c) {
        std::int64_t sum = 1 << 21;
        for (std::int64_t i = 0; i < in.size.height; ++i) {
          sum += wide.at(i, x, c) * down[static_cast<std::size_t>(y)][static_cast<std::size_t>(i)];
        }
        out.at(y, x, c) = static_cast<std::uint8_t>(sum >> 22);
      }
    }
  }
  return out;
}

inline Picture cropped(const Picture& in, const Box& box) {
  Picture out(box.size, in.channels);
  for (std::int64_t y = 0; y < box.size.height; ++y) {
    for (std::int64_t x = 0; x < box.size.width; ++x) {
      const auto from_y = box.top + y;
      const auto from_x = box.left + x;
      const bool is_inside =
          from_y >= 0 && from_y < in.size.height && from_x >= 0 && from_x < in.size.width;
      for (std::int64_t c = 0; c < in.channels; ++c) {
        out.at(y, x, c) = is_inside ? in.at(from_y, from_x, c) : 0;
      }
    }
  }
  return out;
}

inline Picture flipped(const Picture& in) {
  Picture out(in.size, in.channels);
  for (std::int64_t y = 0; y < in.size.height; ++y) {
    for (std::int64_t x = 0; x < in.size.width; ++x) {
      for (std::int64_t c = 0; c < in.channels; ++c) {
        out.at(y, x, c) = in.at(y, in.size.width - 1 - x, c);
      }
    }
  }
  return out;
}

template <typename T>
void put(std::vector<std::byte>& out, std::size_t at, T value) {
  std::memcpy(out.data() + at * sizeof(T), &value, sizeof(T));
}

/// Step after step, each on all pixels, as `decide` says.
inline std::vector<std::byte> reference(const Pipeline& pipeline, const Picture& picture,
                                        const Draws& draws) {
  const auto decisions = decide(pipeline, picture.size, draws);
  Picture now = picture;
  Normalize normalize{std::vector<float>(static_cast<std::size_t>(picture.channels), 0.0F),
                      std::vector<float>(static_cast<std::size_t>(picture.channels), 1.0F)};
  Box erased;
  for (std::size_t i = 0; i < pipeline.steps.size(); ++i) {
    const auto& step = pipeline.steps[i];
    const auto& decision = decisions[i];
    if (!decision.applies) continue;
    if (std::holds_alternative<RandomHorizontalFlip>(step)) now = flipped(now);
    if (std::holds_alternative<RandomCrop>(step) || std::holds_alternative<CenterCrop>(step) ||
        std::holds_alternative<RandomResizedCrop>(step)) {
      now = cropped(now, decision.box);
    }
    if (now.size != decision.size) now = resized(now, decision.size);
    if (const auto* found = std::get_if<Normalize>(&step)) normalize = *found;
    if (std::holds_alternative<RandomErasing>(step)) erased = decision.box;
  }
  const auto is_erased = [&](std::int64_t y, std::int64_t x) {
    return y >= erased.top && y < erased.top + erased.size.height && x >= erased.left &&
           x < erased.left + erased.size.width;
  };
  const bool is_first = pipeline.output.layout == Layout::ChannelsFirst;
  std::vector<std::byte> out(now.pixels.size() * size_of(pipeline.output.type));
  for (std::int64_t y = 0; y < now.size.height; ++y) {
    for (std::int64_t x = 0; x < now.size.width; ++x) {
      for (std::int64_t c = 0; c < now.channels; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        const auto at =
            static_cast<std::size_t>(is_first ? (c * now.size.height + y) * now.size.width + x
                                              : (y * now.size.width + x) * now.channels + c);
        const auto pixel = now.at(y, x, c);
        volatile float share = static_cast<float>(pixel) / 255.0F;
        volatile float centered = share - normalize.mean[channel];
        const float value = is_erased(y, x) ? 0.0F : centered / normalize.deviation[channel];
        switch (pipeline.output.type) {
          case DataType::U8: {
            const auto mean = static_cast<std::uint8_t>(normalize.mean[channel] * 255.0F + 0.5F);
            put(out, at, is_erased(y, x) ? mean : pixel);
            break;
          }
          case DataType::F16:
            put(out, at, to_float16(value));
            break;
          case DataType::BF16:
            put(out, at, to_bfloat16(value));
            break;
          default:
            put(out, at, value);
        }
      }
    }
  }
  return out;
}

/// Memory that ends, and begins, where a page begins that nobody may touch.
class GuardedBytes {
 public:
  enum class Edge { Front, Back };

  GuardedBytes(std::size_t count, Edge edge) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const auto inner = (count + page - 1) / page * page;
    total_ = inner + 2 * page;
    base_ = static_cast<std::byte*>(
        ::mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(base_ + page, inner, PROT_READ | PROT_WRITE);
    data_ = edge == Edge::Front ? base_ + page : base_ + page + inner - count;
  }
  ~GuardedBytes() { ::munmap(base_, total_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t total_ = 0;
};

/// Reads what make_fixtures.py wrote.
class Fixture {
 public:
  explicit Fixture(const std::string& name)
      : file_(std::filesystem::path(__FILE__).parent_path() / "fixtures/transform" / name,
              std::ios::binary) {
    file_.exceptions(std::ios::failbit | std::ios::badbit | std::ios::eofbit);
  }

  template <typename T>
  std::vector<T> read(std::size_t count) {
    std::vector<T> values(count);
    file_.read(reinterpret_cast<char*>(values.data()),
               static_cast<std::streamsize>(count * sizeof(T)));
    return values;
  }
  std::int32_t number() { return read<std::int32_t>(1)[0]; }
  Picture picture(ImageSize size, std::int64_t channels) {
    Picture result(size, channels);
    result.pixels = read<std::uint8_t>(result.pixels.size());
    return result;
  }

 private:
  std::ifstream file_;
};

}  // namespace lockstep::data::plain
