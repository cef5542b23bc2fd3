#include "lockstep/train/backends/batch_tensors.h"

#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/data/transform/transform.h"
#include "lockstep/gpu/pictures/picture_plan.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::train {
namespace {

std::vector<std::int64_t> shape_of(const data::Field& field, std::int64_t samples) {
  std::vector<std::int64_t> shape{samples};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  return shape;
}

at::Tensor values_of(const data::Batch& batch, std::size_t position) {
  const auto& field = batch.fields()[position];
  return at::from_blob(batch.data(position), shape_of(field, batch.size()),
                       nn::scalar_type_of(field.type));
}

at::Tensor example_of(const data::Field& field, std::int64_t samples) {
  const auto type = nn::scalar_type_of(field.type);
  const auto shape = shape_of(field, samples);
  return at::isFloatingType(type) ? at::rand(shape).to(type) : at::zeros(shape, type);
}

/// The results of ToTensor and Normalize for all 8-bit values of a channel.
std::array<float, 256> table_for(const std::optional<data::Normalize>& normalize,
                                 std::size_t channel) {
  std::array<float, 256> table{};
  for (std::size_t value = 0; value < table.size(); ++value) {
    table[value] = static_cast<float>(value) / 255.0F;
    if (!normalize) continue;
    table[value] = (table[value] - normalize->mean[channel]) / normalize->deviation[channel];
  }
  return table;
}

}  // namespace

std::optional<std::size_t> StoredSet::picture() const {
  if (!pipeline) return std::nullopt;
  return data::position_of(image_field, set->fields());
}

std::vector<data::Field> StoredSet::fields() const {
  auto fields = set->fields();
  if (const auto at = picture()) {
    fields[*at] = gpu::PicturePlanner(*pipeline, fields[*at]).output_field();
  }
  return fields;
}

BatchTensors::BatchTensors(std::string image, const data::Field& stored,
                           const std::optional<data::Pipeline>& pipeline) {
  if (!pipeline) return;
  const data::Transform transform(*pipeline, stored);
  format_ = {.field = std::move(image),
             .type = pipeline->output.type,
             .layout = pipeline->output.layout,
             .normalize = transform.left_to_device()};
  if (format_->type != DataType::U8) return;
  const auto channels = static_cast<std::size_t>(stored.shape[2]);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    tables_.push_back(table_for(format_->normalize, channel));
  }
}

Fields BatchTensors::as_loaded(const data::Batch& batch) {
  Fields fields;
  for (std::size_t i = 0; i < batch.fields().size(); ++i) {
    const auto& field = batch.fields()[i];
    fields.set(field.name, values_of(batch, i));
    if (field.kind != data::FieldKind::Varying) continue;
    const auto lengths = batch.lengths(i);
    fields.set(field.name + ".length",
               at::from_blob(const_cast<std::int64_t*>(lengths.data()), {batch.size()}, at::kLong));
  }
  return fields;
}

Fields BatchTensors::operator()(const data::Batch& batch) const {
  auto fields = as_loaded(batch);
  return format_ ? fields.with(format_->field, picture(fields[format_->field])) : fields;
}

Fields BatchTensors::example(const std::vector<data::Field>& fields, std::int64_t samples) const {
  // Only the measurement of blocks uses these values.
  const nn::RandomScope scope(nn::making_key(0));
  Fields example;
  for (const auto& field : fields) {
    auto values = example_of(field, samples);
    if (is_picture(field.name)) values = picture(values);
    example.set(field.name, std::move(values));
    if (field.kind != data::FieldKind::Varying) continue;
    example.set(field.name + ".length", at::full({samples}, field.shape.front(), at::kLong));
  }
  return example;
}

at::Tensor BatchTensors::picture(const at::Tensor& values) const {
  if (format_->layout == data::Layout::ChannelsFirst) {
    return tables_.empty() ? values.to(at::kFloat).contiguous(at::MemoryFormat::ChannelsLast)
                           : normalized(values.permute({0, 2, 3, 1}).contiguous());
  }
  return tables_.empty() ? values.to(at::kFloat).permute({0, 3, 1, 2}) : normalized(values);
}

/// `pixels` are [N, height, width, channels].
at::Tensor BatchTensors::normalized(const at::Tensor& pixels) const {
  auto out = at::empty(pixels.sizes(), at::kFloat);
  const auto* in = pixels.data_ptr<std::uint8_t>();
  auto* to = out.data_ptr<float>();
  const auto channels = static_cast<std::int64_t>(tables_.size());
  for (std::int64_t i = 0; i < pixels.numel(); i += channels) {
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      to[i + channel] = tables_[static_cast<std::size_t>(channel)][in[i + channel]];
    }
  }
  return out.permute({0, 3, 1, 2});
}

}  // namespace lockstep::train
