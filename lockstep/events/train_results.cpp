#include "lockstep/events/train_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

}  // namespace lockstep
