#include "lockstep/train/history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep {

double value_of(const EpochResult& result, std::string_view metric) {
  const auto& values = result.validation ? *result.validation : result.training;
  if (metric == "loss") return values.loss;
  std::vector<std::string> names{"loss"};
  for (const auto& [name, value] : values.metrics) {
    if (name == metric) return value;
    names.push_back(name);
  }
  throw Error(ErrorKind::Options,
              fmt::format("Trainer: expected one of the metrics {}, found '{}'",
                          fmt::join(names, ", "), metric),
              "add it to Task::metrics, or name another one");
}

namespace train {

// A record is: whether it is there, training (loss, metrics), whether there was a validation,
// validation. The first number is written last, so a record that a crash cut off is not there.

KeptHistory::KeptHistory(comm::Communicator& communicator, int epochs,
                         const std::vector<Metric>& metrics)
    : communicator_(communicator) {
  for (const auto& metric : metrics) names_.push_back(metric.name);
  const auto count = static_cast<std::size_t>(std::max(0, epochs)) * width();
  if (count == 0) return;
  memory_ = communicator_.on_this_host().keep(count * sizeof(double), "history", count).memory;
  records_.resize(count);
  std::memcpy(records_.data(), memory_.data(), count * sizeof(double));
  agree();
}

/// A host that was replaced remembers nothing: all take the longest memory.
void KeptHistory::agree() {
  std::int64_t mine = 0;
  for (std::size_t at = 0; at < records_.size(); at += width()) mine += records_[at] != 0 ? 1 : 0;
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator_.size()));
  communicator_.all_gather({&mine, 1, DataType::I64, "history"},
                           {all.data(), std::ssize(all), DataType::I64, "history"});
  const auto longest = std::max_element(all.begin(), all.end());
  if (*longest == 0) return;
  communicator_.broadcast({records_.data(), std::ssize(records_), DataType::F64, "history"},
                          static_cast<int>(longest - all.begin()));
}

std::size_t KeptHistory::begin_of(int epoch) const noexcept {
  return static_cast<std::size_t>(epoch - 1) * width();
}

StepResult KeptHistory::read(const double* from) const {
  StepResult result{.loss = *from++,
                    .accuracy = std::numeric_limits<double>::quiet_NaN(),
                    .metrics = {},
                    .replica_losses = {},
                    .done_before = true};
  for (const auto& name : names_) {
    if (name == "acc") result.accuracy = *from;
    result.metrics.push_back({name, *from++});
  }
  return result;
}

std::optional<EpochResult> KeptHistory::find(int epoch) const {
  const auto* record = records_.data() + begin_of(epoch);
  if (record[0] == 0) return std::nullopt;
  EpochResult result{.epoch = epoch, .training = read(record + 1)};
  const auto* validation = record + 2 + names_.size();
  if (validation[0] != 0) result.validation = read(validation + 1);
  return result;
}

void KeptHistory::put(const EpochResult& result) {
  if (!communicator_.is_leader()) return;
  auto* at = reinterpret_cast<double*>(memory_.data()) + begin_of(result.epoch);
  auto* next = at + 1;
  const auto write = [&](const StepResult& values) {
    *next++ = values.loss;
    for (const auto& metric : values.metrics) *next++ = metric.value;
  };
  write(result.training);
  *next++ = result.validation ? 1 : 0;
  if (result.validation) write(*result.validation);
  std::atomic_ref(*at).store(1, std::memory_order_release);
}

}  // namespace train
}  // namespace lockstep
