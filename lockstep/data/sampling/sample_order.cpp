#include "lockstep/data/sampling/sample_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/sampling/permutation.h"

namespace lockstep::data {
namespace {

void check_count(const char* name, std::int64_t value) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (value >= 1 && value <= kMost) return;
  throw Error(ErrorKind::Options,
              fmt::format("data: {}: expected 1 to {}, found {}", name, kMost, value));
}

}  // namespace

Subset::Subset(std::int64_t set_size, std::uint64_t seed, std::optional<std::int64_t> limit)
    : size_(limit.value_or(set_size)) {
  if (set_size < 1) {
    throw Error(ErrorKind::Data, "data: expected a set with samples, found an empty one");
  }
  if (!limit) return;
  if (*limit < 1 || *limit > set_size) {
    throw Error(
        ErrorKind::Options,
        fmt::format("data: a limit of 1 to {} samples was expected, found {}", set_size, *limit));
  }
  chosen_ = std::make_shared<const Permutation>(seed, 0, set_size, Purpose::Subset);
}

std::int64_t Subset::operator[](std::int64_t place) const noexcept {
  return chosen_ ? (*chosen_)(place) : place;
}

TrainOrder::TrainOrder(std::int64_t set_size, const BatchShape& shape,
                       const TrainOrderOptions& options)
    : shape_(shape),
      options_(options),
      subset_(set_size, options.seed, options.limit),
      iterations_(data::iterations_per_epoch(subset_.size(), shape)) {}

std::int64_t TrainOrder::begin_of(const MicroBatchPlace& place) const noexcept {
  return place.step * shape_.samples_per_step() +
         place.replica * shape_.samples_per_replica_step() + place.index * shape_.batch_size;
}

void TrainOrder::samples_at(std::int64_t epoch, std::int64_t begin,
                            std::span<std::int64_t> out) const {
  if (!options_.shuffle) {
    for (auto& sample : out) sample = subset_[begin++];
    return;
  }
  const Permutation order(options_.seed, static_cast<std::uint32_t>(epoch), subset_.size());
  for (auto& sample : out) sample = subset_[order(begin++)];
}

EvaluationOrder::EvaluationOrder(std::int64_t set_size, const EvaluationOrderOptions& options)
    : options_(options), subset_(set_size, options.seed, options.limit) {
  check_count("batch_size", options.batch_size);
  check_count("replicas", options.replicas);
}

std::int64_t EvaluationOrder::batches() const noexcept {
  return (subset_.size() + options_.batch_size - 1) / options_.batch_size;
}

std::int64_t EvaluationOrder::batches_of(std::int64_t first_replica,
                                         std::int64_t count) const noexcept {
  const auto rest = batches() % options_.replicas;
  const auto of_the_rest = std::clamp<std::int64_t>(rest - first_replica, 0, count);
  return batches() / options_.replicas * count + of_the_rest;
}

std::int64_t EvaluationOrder::batch_of(std::int64_t first_replica, std::int64_t count,
                                       std::int64_t n) const noexcept {
  return n / count * options_.replicas + first_replica + n % count;
}

std::int64_t EvaluationOrder::size_of(std::int64_t batch) const noexcept {
  return std::min(options_.batch_size, subset_.size() - batch * options_.batch_size);
}

}  // namespace lockstep::data
