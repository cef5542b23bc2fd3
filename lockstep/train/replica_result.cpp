#include "lockstep/train/replica_result.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"

namespace lockstep::train {

at::Tensor model_input(const Fields& fields, const Task& task) {
  if (task.input) return task.input(fields);
  return fields.has("image") ? fields["image"] : fields.front();
}

at::Tensor sum_of(const Metric& metric, const at::Tensor& output, const Fields& fields) {
  auto sum = metric.sum(output, fields);
  if (sum.numel() == 1) return sum;
  throw Error(
      ErrorKind::Options,
      fmt::format("metric '{}': expected one number, found {}", metric.name, c10::str(sum.sizes())),
      "return the sum over the micro-batch");
}

void add_metrics(const at::Tensor& output, const Fields& fields, const Task& task,
                 ReplicaResult& to) {
  to.metrics.resize(task.metrics.size());
  for (std::size_t i = 0; i < task.metrics.size(); ++i) {
    to.metrics[i] += sum_of(task.metrics[i], output, fields).item<double>();
  }
}

}  // namespace lockstep::train
