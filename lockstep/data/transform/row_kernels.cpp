#include "lockstep/data/transform/row_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/base/half.h"
#include "lockstep/data/transform/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/data/transform/row_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::data::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using kernels::Conversion;
using kernels::Division;
using kernels::RowMemory;

void flip_pixels(const std::uint8_t* in, std::int64_t width, std::int64_t channels,
                 std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x) {
    const auto* pixel = in + (width - 1 - x) * channels;
    for (std::int64_t c = 0; c < channels; ++c) *out++ = pixel[c];
  }
}

/// Pixels `first` to `width` of a row, each channel to its own row.
void split_pixels(const std::uint8_t* in, std::int64_t first, std::int64_t width,
                  std::int64_t channels, std::uint8_t* out, std::ptrdiff_t channel_bytes) {
  for (std::int64_t c = 0; c < channels; ++c) {
    for (auto x = first; x < width; ++x) out[c * channel_bytes + x] = in[x * channels + c];
  }
}

#if HWY_TARGET == HWY_SCALAR

void flip_row(const std::uint8_t* in, std::int64_t width, std::int64_t channels,
              std::uint8_t* out) {
  flip_pixels(in, width, channels, out);
}

void split_row(const std::uint8_t* in, std::int64_t width, std::int64_t channels, std::uint8_t* out,
               std::ptrdiff_t channel_bytes) {
  split_pixels(in, 0, width, channels, out, channel_bytes);
}

#else

using Block = hn::FixedTag<std::uint8_t, 16>;

/// Reverses the whole pixels of 16 bytes. Of 3 channels there are 5, which begin at byte `lead`.
constexpr std::array<std::uint8_t, 16> reversal(std::int64_t channels, std::int64_t lead) {
  const auto pixels = 16 / channels;
  std::array<std::uint8_t, 16> picks{};
  for (std::int64_t i = 0; i < pixels * channels; ++i) {
    picks[static_cast<std::size_t>(i)] =
        static_cast<std::uint8_t>(lead + (pixels - 1 - i / channels) * channels + i % channels);
  }
  return picks;
}

/// As many pixels as fit into 16 bytes at a time. Loads stay within the row, and so do stores: the
/// last pixels go through a buffer.
template <std::int64_t channels>
HWY_INLINE void flip_blocks(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  const Block block;
  constexpr auto kPixels = 16 / channels;
  constexpr auto kBytes = kPixels * channels;
  alignas(16) static constexpr auto kPicks = reversal(channels, 0);
  alignas(16) static constexpr auto kPicksAfterLead = reversal(channels, 16 - kBytes);
  const auto picks = hn::Load(block, kPicks.data());
  const auto picks_after_lead = hn::Load(block, kPicksAfterLead.data());
  const auto flipped = [&](std::int64_t x) HWY_ATTR {
    const auto* from = in + (width - x - kPixels) * channels;
    if (from == in) return hn::TableLookupBytes(hn::LoadU(block, from), picks);
    return hn::TableLookupBytes(hn::LoadU(block, from - (16 - kBytes)), picks_after_lead);
  };
  std::int64_t x = 0;
  for (; x * channels + 16 <= width * channels; x += kPixels) {
    hn::StoreU(flipped(x), block, out + x * channels);
  }
  if (x == width) return;
  alignas(16) std::array<std::uint8_t, 16> last{};
  hn::Store(flipped(width - kPixels), block, last.data());
  std::memcpy(out + (width - kPixels) * channels, last.data(), kBytes);
}

void flip_row(const std::uint8_t* in, std::int64_t width, std::int64_t channels,
              std::uint8_t* out) {
  if (width * channels < 16) return flip_pixels(in, width, channels, out);
  if (channels == 1) return flip_blocks<1>(in, width, out);
  if (channels == 3) return flip_blocks<3>(in, width, out);
  if (channels == 4) return flip_blocks<4>(in, width, out);
  flip_pixels(in, width, channels, out);
}

void split_row(const std::uint8_t* in, std::int64_t width, std::int64_t channels, std::uint8_t* out,
               std::ptrdiff_t channel_bytes) {
  const Block block;
  if (channels != 3 || width < 16) {
    return split_pixels(in, 0, width, channels, out, channel_bytes);
  }
  for (std::int64_t x = 0; x < width; x += 16) {
    // The last 16 end with the row; some are written twice.
    const auto at = std::min(x, width - 16);
    auto red = hn::Zero(block);
    auto green = red;
    auto blue = red;
    hn::LoadInterleaved3(block, in + 3 * at, red, green, blue);
    hn::StoreU(red, block, out + at);
    hn::StoreU(green, block, out + channel_bytes + at);
    hn::StoreU(blue, block, out + 2 * channel_bytes + at);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

/// Rows of small pictures are too short to be worth a call of memcpy.
HWY_INLINE void copy_row(const std::uint8_t* in, std::int64_t bytes, std::uint8_t* out) {
#if HWY_TARGET != HWY_SCALAR
  constexpr std::int64_t kShort = 256;
  if (bytes >= 16 && bytes <= kShort) {
    const Block block;
    for (std::int64_t i = 0; i < bytes; i += 16) {
      const auto at = std::min(i, bytes - 16);
      hn::StoreU(hn::LoadU(block, in + at), block, out + at);
    }
    return;
  }
#endif
  std::memcpy(out, in, static_cast<std::size_t>(bytes));
}

/// Rows [first, first + count) of the window.
void build_rows(const Window& window, const ImageView& image, std::int64_t first,
                std::int64_t count, std::uint8_t* out, std::ptrdiff_t out_row_bytes) {
  const auto channels = image.channels;
  const auto& shown = window.visible;
  if (shown.size != window.size) {
    const auto row_bytes = static_cast<std::size_t>(window.size.width * channels);
    for (std::int64_t y = 0; y < count; ++y) std::memset(out + y * out_row_bytes, 0, row_bytes);
  }
  const auto right = window.size.width - window.left - shown.size.width;
  out += (window.flipped ? right : window.left) * channels;
  const auto begin = std::max(first, window.top);
  const auto end = std::min(first + count, window.top + shown.size.height);
  for (auto y = begin; y < end; ++y) {
    const auto* in = image.row(shown.top + y - window.top) + shown.left * channels;
    auto* to = out + (y - first) * out_row_bytes;
    if (window.flipped) {
      flip_row(in, shown.size.width, channels, to);
    } else {
      copy_row(in, shown.size.width * channels, to);
    }
  }
}

/// Rows that follow each other without gaps: those of the source where they can be used as they
/// are, else rows built in `memory`.
HWY_INLINE const std::uint8_t* rows_of(const Window& window, const ImageView& image,
                                       std::int64_t first, std::int64_t count,
                                       std::uint8_t* memory) {
  const auto row_bytes = static_cast<std::ptrdiff_t>(window.size.width * image.channels);
  if (window.is_plain() && (count == 1 || image.row_bytes == row_bytes)) {
    return image.row(window.visible.top + first) + window.visible.left * image.channels;
  }
  build_rows(window, image, first, count, memory, row_bytes);
  return memory;
}

void copy_window(const Window& window, const ImageView& image, std::int64_t first_row,
                 std::int64_t row_count, std::uint8_t* out, std::ptrdiff_t out_row_bytes) {
  const auto row_bytes = window.size.width * image.channels;
  if (window.is_plain() && image.row_bytes == row_bytes && out_row_bytes == row_bytes) {
    const auto* in = image.row(window.visible.top + first_row);
    std::memcpy(out, in, static_cast<std::size_t>(row_count * row_bytes));
    return;
  }
  build_rows(window, image, first_row, row_count, out, out_row_bytes);
}

using Floats = hn::CappedTag<float, 16>;
using FloatVector = hn::VFromD<Floats>;

HWY_INLINE FloatVector divide_corrected(FloatVector x, FloatVector divisor,
                                        FloatVector reciprocal) {
  const auto quotient = hn::Mul(x, reciprocal);
  const auto rest = hn::NegMulAdd(quotient, divisor, x);
  return hn::MulAdd(rest, reciprocal, quotient);
}

/// Numbers that follow each other: pixels, and what belongs to each of them.
struct Numbers {
  const std::uint8_t* in;
  const float* mean;
  const float* deviation;
  const float* reciprocal;
  std::int64_t
      turn;  ///< after so many it begins again: the channels, or 1 for those of one channel
};

template <Division division>
HWY_INLINE FloatVector normalized(const Numbers& numbers, std::int64_t at, std::int64_t phase) {
  const Floats floats;
  const hn::Rebind<std::uint8_t, Floats> bytes;
  const hn::Rebind<std::int32_t, Floats> ints;
  const auto x = hn::ConvertTo(floats, hn::PromoteTo(ints, hn::LoadU(bytes, numbers.in + at)));
  const auto largest = hn::Set(floats, 255.0F);
  const auto mean = hn::LoadU(floats, numbers.mean + phase);
  const auto deviation = hn::LoadU(floats, numbers.deviation + phase);
  if constexpr (division == Division::Correct) {
    const auto share = divide_corrected(x, largest, hn::Set(floats, 1.0F / 255.0F));
    return divide_corrected(hn::Sub(share, mean), deviation,
                            hn::LoadU(floats, numbers.reciprocal + phase));
  } else {
    return hn::Div(hn::Sub(hn::Div(x, largest), mean), deviation);
  }
}

template <Division division>
HWY_INLINE void normalize_as(const Numbers& numbers, std::int64_t count, float* out) {
  const Floats floats;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(floats));
  const auto turn = numbers.turn;
  if (count >= lanes) {
    const auto step = lanes % turn;
    std::int64_t phase = 0;
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(normalized<division>(numbers, i, phase), floats, out + i);
      phase += step;
      if (phase >= turn) phase -= turn;
    }
    if (i == count) return;
    // The last ones end with the numbers; some are written twice.
    const auto at = count - lanes;
    hn::StoreU(normalized<division>(numbers, at, at % turn), floats, out + at);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto share = static_cast<float>(numbers.in[i]) / 255.0F;
    const auto value = (share - numbers.mean[i % turn]) / numbers.deviation[i % turn];
    std::memcpy(out + i, &value, sizeof(value));
  }
}

void normalize(Division division, const Numbers& numbers, std::int64_t count, float* out) {
#if HWY_NATIVE_FMA
  if (division == Division::Correct) return normalize_as<Division::Correct>(numbers, count, out);
#endif
  static_cast<void>(division);
  normalize_as<Division::Divide>(numbers, count, out);
}

/// The output may have any alignment.
struct [[gnu::packed, gnu::may_alias]] UnalignedBits {
  std::uint16_t bits;
};

template <typename Function>
HWY_ATTR void narrow(const float* in, std::int64_t count, std::byte* out, Function function) {
  auto* bits = reinterpret_cast<UnalignedBits*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) bits[i].bits = function(in[i]).bits;
}

/// Numbers that follow each other in the output, beginning with its `at`-th.
HWY_ATTR void write_numbers(const Conversion& conversion, const Numbers& numbers,
                            std::int64_t count, float* memory, std::byte* out, std::int64_t at) {
  switch (conversion.format.type) {
    case DataType::F16:
      normalize(conversion.division, numbers, count, memory);
      return narrow(memory, count, out + 2 * at, [](float value) { return to_float16(value); });
    case DataType::BF16:
      normalize(conversion.division, numbers, count, memory);
      return narrow(memory, count, out + 2 * at, [](float value) { return to_bfloat16(value); });
    default:
      normalize(conversion.division, numbers, count, reinterpret_cast<float*>(out + 4 * at));
  }
}

/// What belongs to the numbers of a channel, or of all channels in turn.
Numbers numbers_of(const Conversion& conversion, const std::uint8_t* in, std::int64_t at,
                   std::int64_t turn) {
  return {in, conversion.mean.data() + at, conversion.deviation.data() + at,
          conversion.reciprocal.data() + at, turn};
}

/// Calls `convert(first, count)` for rows, as many at a time as there is memory for.
template <typename Convert>
HWY_INLINE void for_rows(const Window& window, const ImageView& image, const Convert& convert) {
  const auto at_a_time = kernels::rows_at_a_time(window.size, image.channels);
  for (std::int64_t first = 0; first < window.size.height; first += at_a_time) {
    convert(first, std::min(at_a_time, window.size.height - first));
  }
}

void convert_channels_last(const Window& window, const ImageView& image,
                           const Conversion& conversion, const RowMemory& memory, std::byte* out) {
  const auto row = window.size.width * image.channels;
  for_rows(window, image, [&](std::int64_t first, std::int64_t count) HWY_ATTR {
    const auto* rows = rows_of(window, image, first, count, memory.rows);
    write_numbers(conversion, numbers_of(conversion, rows, 0, image.channels), count * row,
                  memory.floats, out, first * row);
  });
}

void convert_channels_first(const Window& window, const ImageView& image,
                            const Conversion& conversion, const RowMemory& memory, std::byte* out) {
  const auto width = window.size.width;
  for_rows(window, image, [&](std::int64_t first, std::int64_t count) HWY_ATTR {
    const auto pixels = count * width;
    const auto* rows = rows_of(window, image, first, count, memory.rows);
    split_row(rows, pixels, image.channels, memory.channels, pixels);
    for (std::int64_t c = 0; c < image.channels; ++c) {
      write_numbers(
          conversion,
          numbers_of(conversion, memory.channels + c * pixels, c * Conversion::kWidest, 1), pixels,
          memory.floats, out, (c * window.size.height + first) * width);
    }
  });
}

void split_window(const Window& window, const ImageView& image, const RowMemory& memory,
                  std::uint8_t* out) {
  const auto width = window.size.width;
  for_rows(window, image, [&](std::int64_t first, std::int64_t count) HWY_ATTR {
    split_row(rows_of(window, image, first, count, memory.rows), count * width, image.channels,
              out + first * width, window.size.height * width);
  });
}

void convert_window(const Window& window, const ImageView& image, const Conversion& conversion,
                    const RowMemory& memory, std::byte* out) {
  const bool is_first = conversion.format.layout == Layout::ChannelsFirst && image.channels > 1;
  if (conversion.format.type == DataType::U8) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(out);
    if (is_first) return split_window(window, image, memory, bytes);
    return copy_window(window, image, 0, window.size.height, bytes,
                       static_cast<std::ptrdiff_t>(window.size.width * image.channels));
  }
  if (is_first) return convert_channels_first(window, image, conversion, memory, out);
  convert_channels_last(window, image, conversion, memory, out);
}

}  // namespace
}  // namespace lockstep::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::data {
namespace {

HWY_EXPORT(copy_window);
HWY_EXPORT(convert_window);

}  // namespace

namespace kernels {

void copy_window(const Window& window, const ImageView& image, std::int64_t first_row,
                 std::int64_t row_count, std::uint8_t* out, std::ptrdiff_t out_row_bytes) {
  HWY_DYNAMIC_DISPATCH(copy_window)(window, image, first_row, row_count, out, out_row_bytes);
}

void convert_window(const Window& window, const ImageView& image, const Conversion& conversion,
                    const RowMemory& memory, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(convert_window)(window, image, conversion, memory, out);
}

}  // namespace kernels
}  // namespace lockstep::data
#endif  // HWY_ONCE
