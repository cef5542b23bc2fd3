#include "lockstep/train/backends/replica_result.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

std::vector<std::int64_t> whole_numbers_of(const at::Tensor& tensor) {
  const auto numbers = tensor.to(at::kCPU, at::kLong).contiguous();
  const auto* first = numbers.data_ptr<std::int64_t>();
  return {first, first + numbers.numel()};
}

void check_is_classifier(const at::Tensor& output, const at::Tensor& labels,
                         const std::string& field) {
  const bool is_whole = at::isIntegralType(labels.scalar_type(), /*includeBool=*/false);
  if (is_whole && output.dim() == 2 && labels.dim() == 1 && output.size(0) == labels.size(0)) {
    return;
  }
  throw Error(ErrorKind::Options,
              fmt::format("evaluate: expected outputs [samples, classes] and whole numbers "
                          "[samples] in the field '{}', found outputs {} and {} {}",
                          field, c10::str(output.sizes()), c10::toString(labels.scalar_type()),
                          c10::str(labels.sizes())),
              "name the field that holds one class for each sample");
}

void add_predictions(const at::Tensor& output, const Fields& fields, const std::string& field,
                     ReplicaResult& to) {
  const auto& labels = fields[field];
  check_is_classifier(output, labels, field);
  to.classes = output.size(1);
  to.truths = whole_numbers_of(labels);
  to.predictions = whole_numbers_of(output.argmax(1));
  for (const auto truth : to.truths) {
    if (truth >= 0 && truth < to.classes) continue;
    throw Error(ErrorKind::Data,
                fmt::format("evaluate: expected classes of 0 to {} in the field '{}', because the "
                            "model has {} outputs, found {}",
                            to.classes - 1, field, to.classes, truth),
                "evaluate a model that has an output for each class of the dataset");
  }
}

}  // namespace

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

ReplicaResult evaluate_output(const at::Tensor& output, const Fields& fields, const Task& task,
                              const std::string& class_field) {
  ReplicaResult result;
  // Before the loss: libtorch's error for an unknown class says less.
  if (!class_field.empty()) add_predictions(output, fields, class_field, result);
  const auto& loss = task.test_loss ? task.test_loss : task.loss;
  result.loss = loss(output, fields).item<double>();
  add_metrics(output, fields, task, result);
  return result;
}

void add_metrics(const at::Tensor& output, const Fields& fields, const Task& task,
                 ReplicaResult& to) {
  to.metrics.resize(task.metrics.size());
  for (std::size_t i = 0; i < task.metrics.size(); ++i) {
    to.metrics[i] += sum_of(task.metrics[i], output, fields).item<double>();
  }
}

}  // namespace lockstep::train
