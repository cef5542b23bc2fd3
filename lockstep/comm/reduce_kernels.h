#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/data_type.h"
#include "lockstep/comm/operation.h"

/// Loops over elements, compiled for each vector unit; the best that this machine has is chosen at
/// run time. All of them give the same bits. Types called `accumulator` are F32, F64 or I64.
namespace lockstep::comm::kernels {

/// out[i] = left[i] (op) right[i]; `out` may be either of them. A mean is summed here.
void combine(ReduceOp op, DataType accumulator, const void* left, const void* right, void* out,
             std::size_t count);

/// Elements as their accumulator.
void widen(DataType type, const void* elements, void* accumulators, std::size_t count);

/// Accumulators as elements: floats are rounded to nearest, ties to even; integers keep low bits.
void narrow(DataType type, const void* accumulators, void* elements, std::size_t count);

void divide(DataType accumulator, void* values, std::int64_t divisor, std::size_t count);

}  // namespace lockstep::comm::kernels
