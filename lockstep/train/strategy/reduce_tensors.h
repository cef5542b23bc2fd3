#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/comm/reduce_op.h"
#include "lockstep/train/strategy/replica_group.h"

namespace lockstep::train {

/// Throws `Options`, beginning with `where`, unless it is what a collective can combine: numbers in
/// the host's memory.
void check_numbers(const char* where, const at::Tensor& tensor);

/// Throws `Options`, beginning with `where`, for a mean of whole numbers, which would be rounded.
void check_mean(const char* where, comm::ReduceOp op, DataType type);

/// Combines a tensor of each local replica with those of all others of the job.
/// Errors, for `ReplicaGroup::guarded`: `Options` where they are not of one type and shape.
at::Tensor reduce_tensors(const char* where, ReplicaGroup& group, comm::ReduceOp op,
                          const std::vector<at::Tensor>& values);

}  // namespace lockstep::train
