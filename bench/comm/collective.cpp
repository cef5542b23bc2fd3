#include "bench/comm/collective.h"

namespace lockstep::bench {
namespace {

/// How often each byte crosses a link, on average over the instances.
double crossings(Collective collective, int instances) {
  const double share = static_cast<double>(instances - 1) / instances;
  switch (collective) {
    case Collective::AllReduce:
      return 2 * share;
    case Collective::ReduceScatter:
    case Collective::AllGather:
      return share;
    case Collective::Broadcast:
      return 1;
  }
  return 0;
}

}  // namespace

std::string_view name_of(Collective collective) noexcept {
  switch (collective) {
    case Collective::AllReduce:
      return "all_reduce";
    case Collective::ReduceScatter:
      return "reduce_scatter";
    case Collective::AllGather:
      return "all_gather";
    case Collective::Broadcast:
      return "broadcast";
  }
  return "unknown";
}

ElementCounts element_counts(const Cell& cell) {
  const auto whole = cell.bytes / static_cast<std::int64_t>(sizeof(float));
  const auto block = whole / cell.instances;
  switch (cell.collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
      return {whole, 0};
    case Collective::ReduceScatter:
      return {whole, block};
    case Collective::AllGather:
      return {block, whole};
  }
  return {};
}

double bus_bandwidth(const Cell& cell, std::chrono::duration<double> time) {
  return crossings(cell.collective, cell.instances) * static_cast<double>(cell.bytes) /
         time.count() / 1e9;
}

}  // namespace lockstep::bench
