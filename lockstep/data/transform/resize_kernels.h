#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/data/transform/resize_plan.h"

// The inner loops of resizing, compiled for each vector unit and chosen at run time. They work on
// integers: all units give the same bits.
namespace lockstep::data::kernels {

struct ConstRows {
  const std::uint8_t* data = nullptr;
  std::ptrdiff_t row_bytes = 0;
};

struct Rows {
  std::uint8_t* data = nullptr;
  std::ptrdiff_t row_bytes = 0;
};

/// Resizes each row. Reads `plan.bytes_read()` of a row, writes `plan.bytes_written()`.
void resize_rows(const RowPlan& plan, ConstRows in, std::int64_t row_count, Rows out);

/// Makes the rows of the result, each `row_length` bytes, from those of the source that begin with
/// `plan.first_row`. Reads and writes within rows only.
void resize_columns(const ColumnPlan& plan, ConstRows in, std::int64_t row_length, Rows out);

}  // namespace lockstep::data::kernels
