#include "lockstep/data/transform/resizing.h"

#include <algorithm>
#include <cstring>

#include "lockstep/data/transform/resize_kernels.h"
#include "lockstep/data/transform/row_kernels.h"

namespace lockstep::data {
namespace {

/// Rows that are built before they are resized should still be in the first cache then.
constexpr std::int64_t kChunkBytes = 16 << 10;

std::int64_t lines(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// Rows of the source, as the first pass is to see them.
struct SourceRows {
  const ImageView& image;
  const Window& window;
  std::int64_t first;
  std::int64_t count;
};

/// Copies rows of the window to scratch memory, each at least `row_bytes` apart.
ImageView copy_rows(const SourceRows& rows, std::int64_t row_bytes, Scratch& scratch) {
  const auto stride = lines(row_bytes);
  auto* const memory = scratch.bytes(Scratch::Use::Source, rows.count * stride);
  kernels::copy_window(rows.window, rows.image, rows.first, rows.count, memory, stride);
  return {memory, {rows.count, rows.window.size.width}, rows.image.channels, stride};
}

/// Rows of the source: where they are if they can be used so, else copied.
ImageView take_rows(const SourceRows& rows, Scratch& scratch) {
  const auto& window = rows.window;
  if (!window.is_plain()) {
    return copy_rows(rows, window.size.width * rows.image.channels, scratch);
  }
  return part_of(
      rows.image,
      {window.visible.top + rows.first, window.visible.left, {rows.count, window.size.width}});
}

/// The horizontal direction, into `Use::Wide`.
ImageView resize_rows(const SourceRows& rows, const RowPlan& plan, Scratch& scratch) {
  const auto channels = rows.image.channels;
  const auto source_bytes = rows.window.size.width * channels;
  const auto stride = lines(plan.bytes_written());
  auto* const out = scratch.bytes(Scratch::Use::Wide, rows.count * stride);
  const bool is_direct = rows.window.is_plain() && source_bytes >= plan.bytes_read();
  const auto chunk =
      is_direct ? rows.count : std::max<std::int64_t>(1, kChunkBytes / lines(plan.bytes_read()));
  for (std::int64_t y = 0; y < rows.count; y += chunk) {
    const SourceRows some{rows.image, rows.window, rows.first + y, std::min(chunk, rows.count - y)};
    const auto in =
        is_direct ? take_rows(some, scratch) : copy_rows(some, plan.bytes_read(), scratch);
    kernels::resize_rows(plan, {in.pixels, in.row_bytes}, some.count,
                         {out + y * stride, static_cast<std::ptrdiff_t>(stride)});
  }
  return {out, {rows.count, plan.key.count}, channels, static_cast<std::ptrdiff_t>(stride)};
}

/// The rows that the vertical direction needs, already as wide as the result.
ImageView widen(const SourceRows& rows, const PendingResize& resize, const Box& needed,
                Scratch& scratch) {
  const auto width = resize.source.size.width;
  if (width == resize.size.width) {
    const auto all = take_rows(rows, scratch);
    return part_of(all, {0, needed.left, {rows.count, needed.size.width}});
  }
  const auto& plan = scratch.row_plan(
      {width, resize.size.width, needed.left, needed.size.width, rows.image.channels});
  return resize_rows(rows, plan, scratch);
}

void copy_dense(const ImageView& image, std::uint8_t* out) {
  const auto row_bytes = image.size.width * image.channels;
  kernels::copy_window(Window::over(image.size), image, 0, image.size.height, out, row_bytes);
}

}  // namespace

ImageView resize(const ImageView& image, const PendingResize& resize, const Box& needed,
                 Scratch& scratch, Scratch::Use use, std::uint8_t* out) {
  const auto row_bytes = needed.size.width * image.channels;
  if (out == nullptr) out = scratch.bytes(use, needed.size.height * row_bytes);
  const auto height = resize.source.size.height;
  if (height == resize.size.height) {
    const SourceRows rows{image, resize.source, needed.top, needed.size.height};
    copy_dense(widen(rows, resize, needed, scratch), out);
  } else {
    const auto& plan =
        scratch.column_plan({height, resize.size.height, needed.top, needed.size.height, 1});
    const SourceRows rows{image, resize.source, plan.first_row, plan.row_count};
    const auto wide = widen(rows, resize, needed, scratch);
    kernels::resize_columns(plan, {wide.pixels, wide.row_bytes}, row_bytes,
                            {out, static_cast<std::ptrdiff_t>(row_bytes)});
  }
  return dense_view(out, needed.size, image.channels);
}

}  // namespace lockstep::data
