#include "lockstep/gpu/layers/norm_deal.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::gpu {
Deal deal_out(const NormShape& shape, int packet_channels, int lanes, int parts) {
  const auto packets = shape.channels / packet_channels;
  return {.rows = shape.rows,
          .channels = shape.channels,
          .packets = static_cast<int>(packets),
          .lanes_log2 = std::countr_zero(static_cast<unsigned>(lanes)),
          .slices = static_cast<int>(divide_up(packets, lanes)),
          .parts = parts,
          .part_rows = static_cast<int>(divide_up(shape.rows, parts))};
}

unsigned blocks_of(const NormShape& shape, const Deal& deal) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto of_a_group = std::int64_t{deal.slices} * deal.parts;
  if (shape.groups > kMost / of_a_group) {
    throw Error(
        ErrorKind::Options,
        fmt::format("batch norm: {} groups of {} blocks each are more than a GPU can be given",
                    shape.groups, of_a_group));
  }
  return static_cast<unsigned>(shape.groups * of_a_group);
}

}  // namespace lockstep::gpu
