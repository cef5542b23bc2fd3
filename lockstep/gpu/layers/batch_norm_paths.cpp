#include "lockstep/gpu/layers/batch_norm_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "lockstep/gpu/layers/norm_deal.h"

namespace lockstep::gpu {
namespace {

constexpr int kLargestCluster = 8;  // that every chip with clusters has
constexpr int kThreads = 256;

std::int64_t packets_of_row(const NormShape& shape) {
  return shape.channels * static_cast<std::int64_t>(size_of(shape.type)) / kPacketBytes;
}

/// The least power of two that is not smaller.
std::int64_t power_of_two(std::int64_t number) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(number)));
}

/// As wide as a line of the cache: narrower slices reach half the speed (measured on an H200).
constexpr std::int64_t kLanes = 8;

/// Blocks that keep a slice of a group, if each thread has the most packets.
std::int64_t blocks_to_keep(const NormShape& shape, std::int64_t lanes) {
  constexpr std::int64_t kKept = kThreads * 16;
  return power_of_two(divide_up(shape.rows * lanes, kKept));
}

/// What is kept saves a read of it; what does not fit costs a cluster more than a second pass over
/// memory does, the more so the more is read. Measured on an H200.
std::int64_t most_blocks(NormPass pass) {
  switch (pass) {
    case NormPass::Forward:
      return 4 * kLargestCluster;
    case NormPass::Backward:
      return kLargestCluster;
    case NormPass::BackwardOfSum:
      return 1;
  }
  return 0;
}

/// Larger where there would be fewer blocks than the chip runs at once, if there is still enough to
/// do in each.
int choose_cluster(const NormShape& shape, std::int64_t lanes, const NormChip& chip) {
  constexpr std::int64_t kEnough = kThreads * 4;
  auto cluster = std::min<std::int64_t>(kLargestCluster, blocks_to_keep(shape, lanes));
  const auto tiles = shape.groups * divide_up(packets_of_row(shape), lanes);
  while (cluster < kLargestCluster && tiles * cluster < 2 * chip.multiprocessors &&
         shape.rows * lanes >= kEnough * 2 * cluster) {
    cluster *= 2;
  }
  return static_cast<int>(cluster);
}

int choose_packets(const NormShape& shape, std::int64_t lanes, int cluster) {
  const auto needed = divide_up(divide_up(shape.rows, cluster) * lanes, kThreads);
  return needed <= 4 ? 4 : needed <= 8 ? 8 : 16;
}

}  // namespace

bool has_wide_rows(const NormShape& shape) {
  return shape.channels * static_cast<std::int64_t>(size_of(shape.type)) % kPacketBytes == 0;
}

NormPath choose_norm_path(const NormShape& shape, NormPass pass, const NormChip& chip) {
  if (chip.compute_major < 9 || !has_wide_rows(shape)) return {};
  const auto lanes = std::min(kLanes, power_of_two(packets_of_row(shape)));
  if (blocks_to_keep(shape, lanes) > most_blocks(pass)) return {};
  const auto cluster = choose_cluster(shape, lanes, chip);
  return {.kind = NormPathKind::Resident,
          .threads = kThreads,
          .packets = choose_packets(shape, lanes, cluster),
          .lanes = static_cast<int>(lanes),
          .cluster = cluster};
}

std::vector<NormPath> resident_paths(const NormShape& shape, int largest_cluster) {
  std::vector<NormPath> paths;
  if (!has_wide_rows(shape)) return paths;
  const auto widest = std::min<std::int64_t>(16, power_of_two(packets_of_row(shape)));
  for (const auto& block : kResidentBlocks) {
    for (int lanes = 1; lanes <= widest; lanes *= 2) {
      for (int cluster = 1; cluster <= largest_cluster; cluster *= 2) {
        paths.push_back({NormPathKind::Resident, block.threads, block.packets, lanes, cluster});
      }
    }
  }
  return paths;
}

std::string to_string(const NormPath& path) {
  if (path.kind == NormPathKind::Streaming) return "streaming";
  return fmt::format("{}x{} lanes {} cluster {}", path.threads, path.packets, path.lanes,
                     path.cluster);
}

}  // namespace lockstep::gpu
