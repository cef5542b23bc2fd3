#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/train/fields.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

/// What one replica found out beside its gradients.
struct ReplicaResult {
  double loss = 0;              ///< sum over its micro-batches
  std::vector<double> metrics;  ///< sums over its samples
};

/// What the model is called with.
at::Tensor model_input(const Fields& fields, const Task& task);

/// The sum of a metric. Errors: `Options` for one that is not one number.
at::Tensor sum_of(const Metric& metric, const at::Tensor& output, const Fields& fields);

/// Errors: as `sum_of`.
void add_metrics(const at::Tensor& output, const Fields& fields, const Task& task,
                 ReplicaResult& to);

}  // namespace lockstep::train
