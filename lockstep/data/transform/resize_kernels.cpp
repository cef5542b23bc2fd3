#include "lockstep/data/transform/resize_kernels.h"

#include <cstring>

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

enum class Weights { High, HighAndLow };

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

template <Weights weights>
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

template <Weights weights>
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

/// The blocks from `block` on, as many as a vector has.
template <Weights weights>
HWY_INLINE IntsVector sum_of_steps(const std::uint8_t* row, const RowPlan::Step* step,
                                   const RowPlan::Step* end, std::size_t block) {
  const Bytes bytes;
  const Shorts shorts;
  const Ints ints;
  auto high = hn::Zero(ints);
  auto low = hn::Set(ints, kHalf);
  for (; step != end; ++step) {
    const auto picks = hn::LoadU(bytes, step->picks.data() + 16 * block);
    const auto pixels = hn::BitCast(
        shorts, hn::TableLookupBytesOr0(load_blocks(row, step->offsets.data() + block), picks));
    high = add_products(pixels, hn::LoadU(shorts, &step->high[4 * block].first), high);
    if constexpr (weights == Weights::HighAndLow) {
      low = add_products(pixels, hn::LoadU(shorts, &step->low[4 * block].first), low);
    }
  }
  return hn::Add(hn::ShiftLeft<8>(high), low);
}

/// The four bytes of each block of a group, into 16 bytes.
template <Weights weights>
HWY_INLINE void make_group(const std::uint8_t* row, const RowPlan::Step* step,
                           const RowPlan::Step* end, std::uint8_t* out) {
  constexpr std::size_t kVectorBlocks = hn::MaxLanes(Bytes()) / 16;
  const hn::Rebind<std::uint8_t, Ints> narrow;
  for (std::size_t block = 0; block < RowPlan::kBlocks; block += kVectorBlocks) {
    const auto sum = sum_of_steps<weights>(row, step, end, block);
    hn::StoreU(hn::DemoteTo(narrow, hn::ShiftRight<kFraction>(sum)), narrow, out + 4 * block);
  }
}

/// Closes the gaps that a group of pixels of 3 channels leaves.
HWY_INLINE void close_gaps(const std::uint8_t* group, std::uint8_t* out) {
  alignas(16) constexpr std::uint8_t kPicks[16] = {0,  1,  2,  4,  5,    6,    8,    9,
                                                   10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
  const hn::FixedTag<std::uint8_t, 16> block;
  hn::StoreU(hn::TableLookupBytesOr0(hn::LoadU(block, group), hn::Load(block, kPicks)), block, out);
}

template <Weights weights>
HWY_INLINE void resize_row(const RowPlan& plan, const std::uint8_t* in, std::uint8_t* out) {
  const auto* step = plan.steps.data();
  for (const auto end : plan.ends) {
    const auto* group_end = plan.steps.data() + end;
    if (plan.lanes_used == 4) {
      make_group<weights>(in, step, group_end, out);
      out += 16;
    } else {
      alignas(16) std::uint8_t group[16];
      make_group<weights>(in, step, group_end, group);
      close_gaps(group, out);
      out += 12;
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

HWY_INLINE IntsVector total(IntsVector high, IntsVector low) {
  return hn::Add(hn::ShiftLeft<8>(high), low);
}

/// A vector of bytes of one row of the result. No byte changes its lane on the way.
template <Weights weights>
HWY_INLINE BytesVector make_bytes(const ColumnPlan::RowPair* pair, const ColumnPlan::RowPair* end,
                                  kernels::ConstRows in, std::int64_t x) {
  const Bytes bytes;
  const Ints ints;
  const hn::Repartition<std::uint32_t, Bytes> words;
  const auto zero = hn::Zero(ints);
  const auto half = hn::Set(ints, kHalf);
  Sums high{zero, zero, zero, zero};
  Sums low{half, half, half, half};
  for (; pair != end; ++pair) {
    const auto a = hn::BitCast(ints, hn::LoadU(bytes, in.data + pair->first * in.row_bytes + x));
    const auto b = hn::BitCast(ints, hn::LoadU(bytes, in.data + pair->second * in.row_bytes + x));
    const auto of0 = pair_up<0>(a, b);
    const auto of1 = pair_up<1>(a, b);
    const auto of2 = pair_up<2>(a, b);
    const auto of3 = pair_up<3>(a, b);
    add_rows(of0, of1, of2, of3, pair->high, high);
    if constexpr (weights == Weights::HighAndLow) add_rows(of0, of1, of2, of3, pair->low, low);
  }
  const auto byte0 = hn::ShiftRight<kFraction>(total(high.of0, low.of0));
  const auto byte1 = hn::ShiftRight<kFraction>(total(high.of1, low.of1));
  const auto byte2 = hn::ShiftRight<kFraction>(total(high.of2, low.of2));
  const auto byte3 = hn::ShiftRight<kFraction>(total(high.of3, low.of3));
  const auto lower = hn::Or(byte0, hn::ShiftLeft<8>(byte1));
  const auto upper = hn::Or(hn::ShiftLeft<16>(byte2), hn::ShiftLeft<24>(byte3));
  return hn::BitCast(bytes, hn::BitCast(words, hn::Or(lower, upper)));
}

template <Weights weights>
HWY_INLINE void make_row(const ColumnPlan::RowPair* pair, const ColumnPlan::RowPair* end,
                         kernels::ConstRows in, std::int64_t row_length, std::uint8_t* out) {
  const Bytes bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(bytes));
  if (row_length < lanes) return make_last_bytes(pair, end, in, 0, row_length, out);
  for (std::int64_t x = 0; x < row_length; x += lanes) {
    // The last vector ends with the row; some of its bytes are made twice.
    const auto at = HWY_MIN(x, row_length - lanes);
    hn::StoreU(make_bytes<weights>(pair, end, in, at), bytes, out + at);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

void resize_rows(const RowPlan& plan, kernels::ConstRows in, std::int64_t row_count,
                 kernels::Rows out) {
  for (std::int64_t y = 0; y < row_count; ++y) {
    const auto* from = in.data + y * in.row_bytes;
    auto* to = out.data + y * out.row_bytes;
    if (plan.has_low) {
      resize_row<Weights::HighAndLow>(plan, from, to);
    } else {
      resize_row<Weights::High>(plan, from, to);
    }
  }
}

void resize_columns(const ColumnPlan& plan, kernels::ConstRows in, std::int64_t row_length,
                    kernels::Rows out) {
  const auto* pair = plan.pairs.data();
  for (const auto end : plan.ends) {
    const auto* row_end = plan.pairs.data() + end;
    if (plan.has_low) {
      make_row<Weights::HighAndLow>(pair, row_end, in, row_length, out.data);
    } else {
      make_row<Weights::High>(pair, row_end, in, row_length, out.data);
    }
    pair = row_end;
    out.data += out.row_bytes;
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
