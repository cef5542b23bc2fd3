#include "lockstep/train/backends/gpu/cuda/stored_samples.h"

#include <torch/types.h>

#include "lockstep/gpu/devices.h"
#include "lockstep/nn/gpu_stream.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::train {
namespace {

at::Tensor rows_for(std::int64_t samples, const data::Field& field,
                    const at::TensorOptions& options) {
  std::vector<std::int64_t> sizes{samples};
  sizes.insert(sizes.end(), field.shape.begin(), field.shape.end());
  return at::empty(sizes, options.dtype(nn::scalar_type_of(field.type)));
}

}  // namespace

StoredSamples::Pictures::Pictures(const StoredSet& stored, std::size_t position,
                                  const GpuInputShape& shape)
    : field(position),
      planner(*stored.pipeline, stored.set->fields()[position]),
      maker(planner, shape.samples_per_step()),
      passes_per_step(planner.plan_size(static_cast<std::size_t>(shape.samples_per_step()))),
      arriving(static_cast<std::size_t>(shape.steps) * passes_per_step),
      arrived(static_cast<std::size_t>(shape.steps) * passes_per_step * sizeof(gpu::PicturePass)) {}

StoredSamples::StoredSamples(const StoredSet& stored, const GpuInputShape& shape, int device)
    : seed_(stored.seed),
      samples_(shape.samples_per_step()),
      set_(*stored.set, gpu::describe_device(device).free_bytes) {
  if (const auto field = stored.picture()) pictures_.emplace(stored, *field, shape);
}

void StoredSamples::send(std::int64_t step, std::int64_t first, const data::Batch& batch,
                         gpu::Stream copies) {
  if (!pictures_) return;
  const auto begin = static_cast<std::size_t>(step) * pictures_->passes_per_step;
  const auto of_step = pictures_->arriving.entries().subspan(begin, pictures_->passes_per_step);
  const auto epoch = static_cast<std::uint32_t>(batch.place().epoch);
  const auto place = static_cast<std::size_t>(first);
  for (std::size_t i = 0; i < batch.samples().size(); ++i) {
    const data::Draws draws{seed_, epoch, static_cast<std::uint64_t>(batch.samples()[i])};
    pictures_->planner.plan_sample(draws, place + i, static_cast<std::size_t>(samples_), of_step);
  }
  for (std::size_t pass = 0; pass < pictures_->planner.shapes().size(); ++pass) {
    const auto at = begin + pass * static_cast<std::size_t>(samples_) + place;
    pictures_->arriving.send_part(at, batch.samples().size(), copies);
  }
}

void StoredSamples::hand_over(gpu::Stream stream) const {
  if (!pictures_) return;
  gpu::copy_on_device(pictures_->arriving.data(), pictures_->arrived.data(),
                      pictures_->arrived.bytes(), stream);
}

Fields StoredSamples::make(std::int64_t step, const at::Tensor& numbers) const {
  Fields fields;
  for (std::size_t i = 0; i < set_.fields().size(); ++i) {
    const bool is_picture = pictures_ && pictures_->field == i;
    fields.set(set_.fields()[i].name,
               is_picture ? make_pictures(step, numbers.options()) : gather(i, numbers));
  }
  return fields;
}

at::Tensor StoredSamples::make_pictures(std::int64_t step, const at::TensorOptions& options) const {
  auto out = rows_for(samples_, pictures_->planner.output_field(), options);
  const auto* const passes = pictures_->arrived.as<gpu::PicturePass>() +
                             static_cast<std::size_t>(step) * pictures_->passes_per_step;
  pictures_->maker.make(set_.values(pictures_->field), passes, samples_, out.data_ptr(),
                        nn::gpu_stream_of(out));
  return out;
}

at::Tensor StoredSamples::gather(std::size_t field, const at::Tensor& numbers) const {
  auto out = rows_for(samples_, set_.fields()[field], numbers.options());
  set_.gather(field, numbers.data_ptr<std::int64_t>(), samples_, out.data_ptr(),
              nn::gpu_stream_of(out));
  return out;
}

}  // namespace lockstep::train
