#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/api/task.h"

namespace lockstep::train {

/// Loss and metrics that one replica computes, and the predictions of an evaluation.
struct ReplicaResult {
  double loss = 0;              ///< sum over its micro-batches
  std::vector<double> metrics;  ///< sums over its samples

  // Only if an evaluation asks for them.
  std::int64_t classes = 0;                 ///< outputs of the model
  std::vector<std::int64_t> truths{};       ///< class of each sample
  std::vector<std::int64_t> predictions{};  ///< class that the model predicts, by sample
};

/// What the model is called with.
at::Tensor model_input(const Fields& fields, const Task& task);

/// The sum of a metric. Errors: `Options` for one that is not one number.
at::Tensor sum_of(const Metric& metric, const at::Tensor& output, const Fields& fields);

/// Evaluates the outputs for one batch: loss, metrics and, if `class_field` is not empty, the
/// class of each sample from that field and the predicted class.
///
/// Errors: as `sum_of`; `Options` if output and field are not those of a classifier; `Data` for a
/// class that the model has no output for.
ReplicaResult evaluate_output(const at::Tensor& output, const Fields& fields, const Task& task,
                              const std::string& class_field);

/// Errors: as `sum_of`.
void add_metrics(const at::Tensor& output, const Fields& fields, const Task& task,
                 ReplicaResult& to);

}  // namespace lockstep::train
