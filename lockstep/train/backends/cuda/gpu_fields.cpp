#include "lockstep/train/backends/cuda/gpu_fields.h"

#include <torch/types.h>

#include "lockstep/data/field.h"
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

}  // namespace lockstep::train
