#include "lockstep/data/transform/resize_kernels.h"

#include <algorithm>
#include <cstring>

#include "lockstep/data/transform/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/data/transform/resize_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::data::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// 22 bits are fraction. Sums begin with a half of them, and never exceed 255: weights are
/// positive and sum to one but for their rounding.
constexpr int kFraction = 22;
constexpr std::int32_t kHalf = 1 << (kFraction - 1);

/// Two rows at a time: what the plan says is loaded once for both.
struct TwoRows {
  const std::uint8_t* in0;
  const std::uint8_t* in1;
};

/// What is left of a row when no vector fits: the same sums, byte by byte.
void make_last_bytes(const ColumnPlan::RowPair* pair, const ColumnPlan::RowPair* end,
                     kernels::ConstRows in, std::int64_t x, std::int64_t row_length,
                     std::uint8_t* out) {
  for (; x < row_length; ++x) {
    std::int32_t sum = kHalf;
    for (const auto* p = pair; p != end; ++p) {
      const std::int32_t a = in.data[p->first * in.row_bytes + x];
      const std::int32_t b = in.data[p->second * in.row_bytes + x];
      sum += a * (p->high.first * 256 + p->low.first) + b * (p->high.second * 256 + p->low.second);
    }
    out[x] = static_cast<std::uint8_t>(sum >> kFraction);
  }
}

#if HWY_TARGET == HWY_SCALAR

// A processor without vectors, or one that Highway does not know: the same sums in plain code.

std::uint8_t sum_lane(const std::uint8_t* row, const RowPlan::Step* step, const RowPlan::Step* end,
                      std::size_t lane) {
  std::int32_t sum = kHalf;
  for (; step != end; ++step) {
    const auto* load = row + step->offsets[lane / 4];
    const auto pick = [&](std::size_t i) { return step->picks[i] < 16 ? load[step->picks[i]] : 0; };
    const auto high = step->high[lane];
    const auto low = step->low[lane];
    sum += pick(4 * lane) * (high.first * 256 + low.first) +
           pick(4 * lane + 2) * (high.second * 256 + low.second);
  }
  return static_cast<std::uint8_t>(sum >> kFraction);
}

void resize_row(const RowPlan& plan, const std::uint8_t* in, std::uint8_t* out) {
  const auto* step = plan.steps.data();
  for (const auto end : plan.ends) {
    const auto* group_end = plan.steps.data() + end;
    for (std::size_t lane = 0; lane < 16; ++lane) {
      if (static_cast<std::int64_t>(lane % 4) >= plan.lanes_used) continue;
      *out++ = sum_lane(in, step, group_end, lane);
    }
    step = group_end;
  }
}

template <WeightBits bits>
void resize_two_rows(const RowPlan& plan, TwoRows rows, std::uint8_t* out0, std::uint8_t* out1) {
  resize_row(plan, rows.in0, out0);
  resize_row(plan, rows.in1, out1);
}

template <WeightBits bits>
void make_row(const ColumnPlan::RowPair* pair, const ColumnPlan::RowPair* end,
              kernels::ConstRows in, std::int64_t row_length, std::uint8_t* out) {
  make_last_bytes(pair, end, in, 0, row_length, out);
}

#else

/// At most the 64 bytes that a step of a plan is for.
using Bytes = hn::CappedTag<std::uint8_t, RowPlan::kBlocks * RowPlan::kLoad>;
using Shorts = hn::Repartition<std::int16_t, Bytes>;
using Ints = hn::Repartition<std::int32_t, Bytes>;
using BytesVector = hn::VFromD<Bytes>;
using ShortsVector = hn::VFromD<Shorts>;
using IntsVector = hn::VFromD<Ints>;

/// In each 32-bit lane, the sum of the products of its two 16-bit halves, added to `sum`.
HWY_INLINE IntsVector add_products(ShortsVector a, ShortsVector b, IntsVector sum) {
  const Ints ints;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  // Here this adds neighbours, elsewhere it leaves open which it adds.
  auto unused = hn::Zero(ints);
  return hn::ReorderWidenMulAccumulate(ints, a, b, sum, unused);
#else
  const auto a2 = hn::BitCast(ints, a);
  const auto b2 = hn::BitCast(ints, b);
  const auto even =
      hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a2)), hn::ShiftRight<16>(hn::ShiftLeft<16>(b2)));
  const auto odd = hn::Mul(hn::ShiftRight<16>(a2), hn::ShiftRight<16>(b2));
  return hn::Add(sum, hn::Add(even, odd));
#endif
}

/// What sums of both halves of the weights come to, without its fraction.
template <WeightBits bits>
HWY_INLINE IntsVector level_of(IntsVector high, IntsVector low) {
  if constexpr (bits != WeightBits::All22) return hn::ShiftRight<kFraction - 8>(high);
  return hn::ShiftRight<kFraction>(hn::Add(hn::ShiftLeft<8>(high), low));
}

/// A load for each block of a vector.
HWY_INLINE BytesVector load_blocks(const std::uint8_t* row, const std::int32_t* offsets) {
  const hn::FixedTag<std::uint8_t, 16> block;
#if HWY_HAVE_SCALABLE || HWY_MAX_BYTES == 16
  return hn::LoadU(block, row + offsets[0]);
#else
  const hn::FixedTag<std::uint8_t, 32> two;
  const auto lower =
      hn::Combine(two, hn::LoadU(block, row + offsets[1]), hn::LoadU(block, row + offsets[0]));
#if HWY_MAX_BYTES == 32
  return lower;
#else
  const auto upper =
      hn::Combine(two, hn::LoadU(block, row + offsets[3]), hn::LoadU(block, row + offsets[2]));
  return hn::Combine(Bytes(), upper, lower);
#endif
#endif
}

template <WeightBits bits>
HWY_INLINE void add_step(const std::uint8_t* row, const RowPlan::Step& step, std::size_t block,
                         IntsVector& high, IntsVector& low) {
  const Shorts shorts;
  const auto picks = hn::LoadU(Bytes(), step.picks.data() + 16 * block);
  const auto pixels = hn::BitCast(
      shorts, hn::TableLookupBytesOr0(load_blocks(row, step.offsets.data() + block), picks));
  high = add_products(pixels, hn::LoadU(shorts, &step.high[4 * block].first), high);
  if constexpr (bits == WeightBits::All22) {
    low = add_products(pixels, hn::LoadU(shorts, &step.low[4 * block].first), low);
  }
}

/// The four bytes of each block of a group, into 16 bytes for each row.
template <WeightBits bits>
HWY_INLINE void make_group(TwoRows rows, const RowPlan::Step* begin, const RowPlan::Step* end,
                           std::uint8_t* out0, std::uint8_t* out1) {
  constexpr std::size_t kVectorBlocks = hn::MaxLanes(Bytes()) / 16;
  const Ints ints;
  const hn::Rebind<std::uint8_t, Ints> narrow;
  for (std::size_t block = 0; block < RowPlan::kBlocks; block += kVectorBlocks) {
    auto high0 = hn::Set(ints, kHalf >> 8);
    auto high1 = high0;
    auto low0 = hn::Zero(ints);
    auto low1 = low0;
    for (const auto* step = begin; step != end; ++step) {
      add_step<bits>(rows.in0, *step, block, high0, low0);
      add_step<bits>(rows.in1, *step, block, high1, low1);
    }
    hn::StoreU(hn::DemoteTo(narrow, level_of<bits>(high0, low0)), narrow, out0 + 4 * block);
    hn::StoreU(hn::DemoteTo(narrow, level_of<bits>(high1, low1)), narrow, out1 + 4 * block);
  }
}

/// Closes the gaps that a group of pixels of 3 channels leaves.
HWY_INLINE void close_gaps(const std::uint8_t* group, std::uint8_t* out) {
  alignas(16) constexpr std::uint8_t kPicks[16] = {0,  1,  2,  4,  5,    6,    8,    9,
                                                   10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
  const hn::FixedTag<std::uint8_t, 16> block;
  hn::StoreU(hn::TableLookupBytesOr0(hn::LoadU(block, group), hn::Load(block, kPicks)), block, out);
}

template <WeightBits bits>
HWY_INLINE void resize_two_rows(const RowPlan& plan, TwoRows rows, std::uint8_t* out0,
                                std::uint8_t* out1) {
  const auto* step = plan.steps.data();
  std::int64_t at = 0;
  for (const auto end : plan.ends) {
    const auto* group_end = plan.steps.data() + end;
    if (plan.lanes_used == 4) {
      make_group<bits>(rows, step, group_end, out0 + at, out1 + at);
      at += 16;
    } else {
      alignas(16) std::uint8_t group0[16];
      alignas(16) std::uint8_t group1[16];
      make_group<bits>(rows, step, group_end, group0, group1);
      close_gaps(group0, out0 + at);
      close_gaps(group1, out1 + at);
      at += 12;
    }
    step = group_end;
  }
}

/// The weights of a pair of rows in every lane.
HWY_INLINE ShortsVector in_all_lanes(WeightPair pair) {
  std::int32_t both = 0;
  std::memcpy(&both, &pair, sizeof(both));
  return hn::BitCast(Shorts(), hn::Set(Ints(), both));
}

/// Byte `i` of each lane of `a`, and of `b`, as two 16-bit numbers.
template <int i>
HWY_INLINE ShortsVector pair_up(IntsVector a, IntsVector b) {
  const Ints ints;
  const auto low_byte = hn::Set(ints, 0xff);
  const auto high_byte = hn::Set(ints, 0xff0000);
  auto first = a;
  auto second = b;
  if constexpr (i > 0) first = hn::ShiftRight<8 * i>(a);
  if constexpr (i < 2) second = hn::ShiftLeft<16 - 8 * i>(b);
  if constexpr (i == 3) second = hn::ShiftRight<8>(b);
  return hn::BitCast(Shorts(), hn::Or(hn::And(first, low_byte), hn::And(second, high_byte)));
}

/// The sums for the bytes of a vector: those of byte i of each lane in the i-th member.
struct Sums {
  IntsVector of0, of1, of2, of3;
};

HWY_INLINE void add_rows(ShortsVector of0, ShortsVector of1, ShortsVector of2, ShortsVector of3,
                         WeightPair weights, Sums& sums) {
  const auto factors = in_all_lanes(weights);
  sums.of0 = add_products(of0, factors, sums.of0);
  sums.of1 = add_products(of1, factors, sums.of1);
  sums.of2 = add_products(of2, factors, sums.of2);
  sums.of3 = add_products(of3, factors, sums.of3);
}

/// The same with weights of 8 bits: products and sums fit into 16 bits, and no pairs are needed.
HWY_INLINE BytesVector make_bytes_in_shorts(const ColumnPlan::RowPair* pair,
                                            const ColumnPlan::RowPair* end, kernels::ConstRows in,
                                            std::int64_t x) {
  const Bytes bytes;
  const hn::Repartition<std::uint16_t, Bytes> words;
  const auto low_byte = hn::Set(words, 0xff);
  auto even = hn::Set(words, 128);
  auto odd = even;
  for (; pair != end; ++pair) {
    const auto a = hn::BitCast(words, hn::LoadU(bytes, in.data + pair->first * in.row_bytes + x));
    const auto b = hn::BitCast(words, hn::LoadU(bytes, in.data + pair->second * in.row_bytes + x));
    const auto factor_a = hn::Set(words, static_cast<std::uint16_t>(pair->high.first >> 6));
    const auto factor_b = hn::Set(words, static_cast<std::uint16_t>(pair->high.second >> 6));
    even = hn::Add(even, hn::Mul(hn::And(a, low_byte), factor_a));
    even = hn::Add(even, hn::Mul(hn::And(b, low_byte), factor_b));
    odd = hn::Add(odd, hn::Mul(hn::ShiftRight<8>(a), factor_a));
    odd = hn::Add(odd, hn::Mul(hn::ShiftRight<8>(b), factor_b));
  }
  return hn::BitCast(bytes, hn::Or(hn::ShiftRight<8>(even), hn::AndNot(low_byte, odd)));
}

/// A vector of bytes of one row of the result. No byte changes its lane on the way.
template <WeightBits bits>
HWY_INLINE BytesVector make_bytes(const ColumnPlan::RowPair* pair, const ColumnPlan::RowPair* end,
                                  kernels::ConstRows in, std::int64_t x) {
  if constexpr (bits == WeightBits::Upper8) return make_bytes_in_shorts(pair, end, in, x);
  const Bytes bytes;
  const Ints ints;
  const hn::Repartition<std::uint32_t, Bytes> words;
  const auto zero = hn::Zero(ints);
  const auto half = hn::Set(ints, kHalf >> 8);
  Sums high{half, half, half, half};
  Sums low{zero, zero, zero, zero};
  for (; pair != end; ++pair) {
    const auto a = hn::BitCast(ints, hn::LoadU(bytes, in.data + pair->first * in.row_bytes + x));
    const auto b = hn::BitCast(ints, hn::LoadU(bytes, in.data + pair->second * in.row_bytes + x));
    const auto of0 = pair_up<0>(a, b);
    const auto of1 = pair_up<1>(a, b);
    const auto of2 = pair_up<2>(a, b);
    const auto of3 = pair_up<3>(a, b);
    add_rows(of0, of1, of2, of3, pair->high, high);
    if constexpr (bits == WeightBits::All22) add_rows(of0, of1, of2, of3, pair->low, low);
  }
  const auto byte0 = level_of<bits>(high.of0, low.of0);
  const auto byte1 = level_of<bits>(high.of1, low.of1);
  const auto byte2 = level_of<bits>(high.of2, low.of2);
  const auto byte3 = level_of<bits>(high.of3, low.of3);
  const auto lower = hn::Or(byte0, hn::ShiftLeft<8>(byte1));
  const auto upper = hn::Or(hn::ShiftLeft<16>(byte2), hn::ShiftLeft<24>(byte3));
  return hn::BitCast(bytes, hn::BitCast(words, hn::Or(lower, upper)));
}

template <WeightBits bits>
HWY_INLINE void make_row(const ColumnPlan::RowPair* pair, const ColumnPlan::RowPair* end,
                         kernels::ConstRows in, std::int64_t row_length, std::uint8_t* out) {
  const Bytes bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(bytes));
  if (row_length < lanes) return make_last_bytes(pair, end, in, 0, row_length, out);
  for (std::int64_t x = 0; x < row_length; x += lanes) {
    // The last vector ends with the row; some of its bytes are made twice.
    const auto at = std::min(x, row_length - lanes);
    hn::StoreU(make_bytes<bits>(pair, end, in, at), bytes, out + at);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

template <WeightBits bits>
void resize_rows_with(const RowPlan& plan, kernels::ConstRows in, std::int64_t row_count,
                      kernels::Rows out) {
  for (std::int64_t y = 0; y < row_count; y += 2) {
    // A last row without another is made twice.
    const auto next = std::min(y + 1, row_count - 1);
    resize_two_rows<bits>(plan, {in.data + y * in.row_bytes, in.data + next * in.row_bytes},
                          out.data + y * out.row_bytes, out.data + next * out.row_bytes);
  }
}

void resize_rows(const RowPlan& plan, kernels::ConstRows in, std::int64_t row_count,
                 kernels::Rows out) {
  if (plan.bits == WeightBits::All22) {
    return resize_rows_with<WeightBits::All22>(plan, in, row_count, out);
  }
  resize_rows_with<WeightBits::Upper14>(plan, in, row_count, out);
}

template <WeightBits bits>
void resize_columns_with(const ColumnPlan& plan, kernels::ConstRows in, std::int64_t row_length,
                         kernels::Rows out) {
  const auto* pair = plan.pairs.data();
  for (const auto end : plan.ends) {
    const auto* row_end = plan.pairs.data() + end;
    make_row<bits>(pair, row_end, in, row_length, out.data);
    pair = row_end;
    out.data += out.row_bytes;
  }
}

void resize_columns(const ColumnPlan& plan, kernels::ConstRows in, std::int64_t row_length,
                    kernels::Rows out) {
  switch (plan.bits) {
    case WeightBits::Upper8:
      return resize_columns_with<WeightBits::Upper8>(plan, in, row_length, out);
    case WeightBits::Upper14:
      return resize_columns_with<WeightBits::Upper14>(plan, in, row_length, out);
    case WeightBits::All22:
      return resize_columns_with<WeightBits::All22>(plan, in, row_length, out);
  }
}

}  // namespace
}  // namespace lockstep::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::data {
namespace {

HWY_EXPORT(resize_rows);
HWY_EXPORT(resize_columns);

}  // namespace

namespace kernels {

void resize_rows(const RowPlan& plan, ConstRows in, std::int64_t row_count, Rows out) {
  HWY_DYNAMIC_DISPATCH(resize_rows)(plan, in, row_count, out);
}

void resize_columns(const ColumnPlan& plan, ConstRows in, std::int64_t row_length, Rows out) {
  HWY_DYNAMIC_DISPATCH(resize_columns)(plan, in, row_length, out);
}

}  // namespace kernels
}  // namespace lockstep::data
#endif  // HWY_ONCE
