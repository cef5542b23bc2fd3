#include "lockstep/train/backends/cuda/gpu_input.h"

#include <torch/types.h>

#include <utility>

#include "lockstep/data/sets/numbered_set.h"
#include "lockstep/gpu/memory.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::train {

GpuInput::GpuInput(const GpuSamples& samples, const GpuInputShape& shape, const at::Device& device)
    : shape_(shape),
      device_(device),
      copies_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {
  if (samples.stored) {
    stored_.emplace(*samples.stored, shape, device.index());
    add_columns(data::NumberedSet(0).fields());
  } else {
    add_columns(samples.fields);
  }
}

void GpuInput::add_columns(const std::vector<data::Field>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    add_column(fields[i], i, /*is_lengths=*/false);
    if (fields[i].kind == data::FieldKind::Varying) add_column(fields[i], i, /*is_lengths=*/true);
  }
}

void GpuInput::add_column(const data::Field& field, std::size_t position, bool is_lengths) {
  const auto type = is_lengths ? at::kLong : nn::scalar_type_of(field.type);
  std::vector<std::int64_t> sizes{shape_.steps, shape_.samples_per_step()};
  if (!is_lengths) sizes.insert(sizes.end(), field.shape.begin(), field.shape.end());
  const auto options = at::TensorOptions(device_).dtype(type);
  const auto bytes = is_lengths ? sizeof(std::int64_t) : static_cast<std::size_t>(bytes_of(field));
  columns_.push_back({.name = is_lengths ? field.name + ".length" : field.name,
                      .field = position,
                      .is_lengths = is_lengths,
                      .bytes = bytes,
                      .arriving = at::zeros(sizes, options),
                      .arrived = at::zeros(sizes, options)});
}

void GpuInput::take(std::int64_t step, data::Batch batch) {
  if (held_.empty()) handed_over_.block(copies_);
  const auto& place = batch.place();
  const auto micro_batch =
      (place.replica - shape_.replicas.first) * shape_.micro_batches + place.micro_batch;
  const auto in_step = micro_batch * shape_.batch_size;
  const auto sample = step * shape_.samples_per_step() + in_step;
  if (stored_) stored_->send(step, in_step, batch, copies_.stream());
  for (const auto& column : columns_) {
    const void* const from = column.is_lengths
                                 ? static_cast<const void*>(batch.lengths(column.field).data())
                                 : batch.data(column.field);
    auto* const to = static_cast<std::byte*>(column.arriving.data_ptr()) +
                     static_cast<std::size_t>(sample) * column.bytes;
    gpu::copy_to_device(from, to, static_cast<std::size_t>(batch.size()) * column.bytes,
                        copies_.stream());
  }
  held_.push_back(std::move(batch));
  copied_.record(copies_);
}

void GpuInput::release() {
  if (!held_.empty()) copied_.synchronize();
  held_.clear();
}

void GpuInput::hand_over() {
  const auto stream = c10::cuda::getCurrentCUDAStream(device_.index());
  copied_.block(stream);
  for (const auto& column : columns_) {
    column.arrived.copy_(column.arriving, /*non_blocking=*/true);
  }
  if (stored_) stored_->hand_over(stream.stream());
  handed_over_.record(stream);
}

Fields GpuInput::step(std::int64_t step) const {
  if (stored_) return stored_->make(step, columns_.front().arrived.select(0, step));
  Fields fields;
  for (const auto& column : columns_) fields.set(column.name, column.arrived.select(0, step));
  return fields;
}

}  // namespace lockstep::train
