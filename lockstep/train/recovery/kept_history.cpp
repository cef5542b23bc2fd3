#include "lockstep/train/recovery/kept_history.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

namespace lockstep::train {
namespace {

std::map<std::string, double> values_of(const StepResult& result) {
  std::map<std::string, double> values{{"loss", result.loss}};
  for (const auto& metric : result.metrics) values.emplace(metric.name, metric.value);
  return values;
}

}  // namespace

checkpoint::EpochEntry entry_of(const EpochResult& result, int fit) {
  return {.fit = fit,
          .epoch = result.epoch,
          .training = values_of(result.training),
          .validation =
              result.validation ? values_of(*result.validation) : std::map<std::string, double>()};
}

// A record: 1 if it is complete, training (loss, metrics), 1 if there was a validation, validation.
// The first number is written last, so a record that a crash has cut off is not complete.

KeptHistory::KeptHistory(comm::Communicator& communicator, int epochs,
                         const std::vector<Metric>& metrics,
                         const std::vector<checkpoint::EpochEntry>& stored)
    : communicator_(communicator) {
  for (const auto& metric : metrics) names_.push_back(metric.name);
  const auto count = static_cast<std::size_t>(std::max(0, epochs)) * width();
  if (count == 0) return;
  memory_ = communicator_.on_this_host().keep(count * sizeof(double), "history", count).memory;
  records_.resize(count);
  std::memcpy(records_.data(), memory_.data(), count * sizeof(double));
  for (const auto& entry : stored) take(entry);
  agree();
  keep();
}

/// A record in memory takes precedence. Entries of another training (more epochs, other metrics)
/// are ignored.
void KeptHistory::take(const checkpoint::EpochEntry& entry) {
  if (entry.epoch > num_epochs() || find(static_cast<int>(entry.epoch))) return;
  const auto training = result_of(entry.training);
  const auto validation = result_of(entry.validation);
  if (!training || validation.has_value() == entry.validation.empty()) return;
  write(records_.data(),
        {.epoch = static_cast<int>(entry.epoch), .training = *training, .validation = validation},
        Origin::EarlierRun);
}

std::optional<StepResult> KeptHistory::result_of(
    const std::map<std::string, double>& values) const {
  std::vector<double> numbers;
  const auto add = [&](const std::string& name) {
    if (const auto found = values.find(name); found != values.end())
      numbers.push_back(found->second);
  };
  add("loss");
  std::ranges::for_each(names_, add);
  if (numbers.size() != 1 + names_.size()) return std::nullopt;
  return read(numbers.data());
}

/// A host that was replaced has no records, so all hosts use the records of the host with the most.
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

/// Stores records that another host or a checkpoint had.
void KeptHistory::keep() {
  for (int epoch = 1; epoch <= num_epochs(); ++epoch) {
    if (const auto known = find(epoch)) {
      keep(*known, is_of_this_job(epoch) ? Origin::ThisJob : Origin::EarlierRun);
    }
  }
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

bool KeptHistory::is_of_this_job(int epoch) const {
  return epoch >= 1 && epoch <= num_epochs() &&
         records_[begin_of(epoch)] == static_cast<double>(Origin::ThisJob);
}

void KeptHistory::keep(const EpochResult& result, Origin origin) {
  if (communicator_.is_leader()) {
    write(reinterpret_cast<double*>(memory_.data()), result, origin);
  }
}

void KeptHistory::write(double* records, const EpochResult& result, Origin origin) const {
  auto* const record = records + begin_of(result.epoch);
  auto* next = record + 1;
  const auto write_values = [&](const StepResult& values) {
    *next++ = values.loss;
    for (const auto& metric : values.metrics) *next++ = metric.value;
  };
  write_values(result.training);
  *next++ = result.validation ? 1 : 0;
  if (result.validation) write_values(*result.validation);
  std::atomic_ref(*record).store(static_cast<double>(origin), std::memory_order_release);
}

}  // namespace lockstep::train
