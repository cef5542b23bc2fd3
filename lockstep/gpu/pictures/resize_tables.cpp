#include "lockstep/gpu/pictures/resize_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::gpu {
namespace {

/// 1 GiB: the tables of random resized crops from pictures of some 10000 x 10000.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 28;

/// At least what the table of a resize has.
std::int64_t most_numbers(std::int64_t in, std::int64_t out) {
  return 2 * (in + out) + 2 * out;
}

}  // namespace

void ResizeTables::check_room(std::int64_t first, std::int64_t last, std::int64_t out) const {
  auto wanted = static_cast<std::int64_t>(numbers_.size());
  for (auto in = first; in <= last && wanted <= kMostNumbers; ++in) wanted += most_numbers(in, out);
  if (wanted <= kMostNumbers) return;
  throw Error(ErrorKind::Options,
              fmt::format("data on the device: expected resizes with at most {} weights in all, "
                          "found more, of {} pixels to {}",
                          kMostNumbers, last, out),
              "leave --data-on-device out");
}

TablePlace ResizeTables::add(std::int64_t in, std::int64_t out) {
  const auto found = places_.find({in, out});
  if (found != places_.end()) return found->second;
  check_room(in, in, out);
  data::compute_taps({.in = in, .out = out, .first = 0, .count = out, .channels = 1}, memory_);
  std::int64_t most = 0;
  for (const auto& taps : memory_.taps) most = std::max(most, taps.count);
  const auto begin = numbers_.size();
  for (const auto& taps : memory_.taps) {
    const auto first = std::min(taps.first, in - most);
    numbers_.push_back(static_cast<std::int32_t>(first));
    numbers_.resize(numbers_.size() + static_cast<std::size_t>(most), 0);
    std::copy_n(memory_.weights.data() + taps.weights, taps.count,
                numbers_.end() - most + (taps.first - first));
  }
  const TablePlace place{static_cast<std::int32_t>(begin), static_cast<std::int32_t>(most)};
  places_.emplace(std::pair{in, out}, place);
  return place;
}

std::vector<TablePlace> ResizeTables::add_all(std::int64_t most, std::int64_t out) {
  check_room(1, most, out);
  std::vector<TablePlace> places{add(1, out)};
  for (std::int64_t in = 1; in <= most; ++in) places.push_back(add(in, out));
  return places;
}

std::int64_t ResizeTables::reach(TablePlace table, std::int64_t out,
                                 std::int64_t rows) const noexcept {
  std::int64_t most = 0;
  for (std::int64_t first = 0; first < out; ++first) {
    const auto last = std::min(first + rows, out) - 1;
    most = std::max(most, first_of(table, last) + table.taps - first_of(table, first));
  }
  return most;
}

}  // namespace lockstep::gpu
