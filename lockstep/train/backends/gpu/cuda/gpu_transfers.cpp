#include "lockstep/train/backends/gpu/cuda/gpu_transfers.h"

#include <torch/types.h>

#include "lockstep/data/sets/numbered_set.h"
#include "lockstep/nn/gpu_stream.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::train {

GpuFields::GpuFields(const GpuSamples& samples, DataType compute)
    : format_(samples.picture), compute_(compute) {
  if (!format_ || format_->type != DataType::U8) return;
  const auto& shape = samples.fields[data::position_of(format_->field, samples.fields)].shape;
  const auto channels = format_->layout == data::Layout::ChannelsLast ? shape[2] : shape[0];
  converter_.emplace(format_->normalize, channels, compute);
}

Fields GpuFields::operator()(const Fields& loaded) const {
  if (!format_) return loaded;
  return loaded.with(format_->field, picture(loaded[format_->field]));
}

at::Tensor GpuFields::picture(const at::Tensor& values) const {
  if (converter_) return converted(values);
  const auto numbers = values.to(nn::scalar_type_of(compute_));
  return format_->layout == data::Layout::ChannelsLast
             ? numbers.permute({0, 3, 1, 2})
             : numbers.contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor GpuFields::converted(const at::Tensor& pixels) const {
  const bool is_last = format_->layout == data::Layout::ChannelsLast;
  const auto height = pixels.size(is_last ? 1 : 2);
  const auto width = pixels.size(is_last ? 2 : 3);
  auto out = at::empty({pixels.size(0), pixels.size(is_last ? 3 : 1), height, width},
                       pixels.options()
                           .dtype(nn::scalar_type_of(compute_))
                           .memory_format(at::MemoryFormat::ChannelsLast));
  converter_->convert({.pixels = pixels.data_ptr<std::uint8_t>(),
                       .layout = format_->layout,
                       .samples = pixels.size(0),
                       .size = {height, width}},
                      out.data_ptr(), nn::gpu_stream_of(pixels));
  return out;
}

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

GpuDownload::GpuDownload(const GpuState& state, std::span<std::byte> home)
    : state_(state),
      home_(home),
      copies_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, state.device().index())) {}

void GpuDownload::begin(std::byte* to) {
  const auto bytes = state_.shape().bytes();
  const auto current = c10::cuda::getCurrentCUDAStream(state_.device().index());
  if (!aside_.defined()) {
    aside_ = at::empty({static_cast<std::int64_t>(bytes)},
                       at::TensorOptions(state_.device()).dtype(at::kByte));
  }
  gpu::copy_on_device(state_.data(), aside_.data_ptr(), bytes, current.stream());
  set_aside_.record(current);
  set_aside_.block(copies_);
  gpu::copy_to_host(aside_.data_ptr(), to, bytes, copies_.stream());
  arrived_.record(copies_);
}

}  // namespace lockstep::train
