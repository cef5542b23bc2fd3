#include "lockstep/gpu/pictures/picture_maker.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/gpu/pictures/upload.h"

namespace lockstep::gpu {
namespace {

std::int64_t numbers_of(const PassShape& shape) {
  return static_cast<std::int64_t>(shape.height) * shape.width * shape.channels;
}

}  // namespace

PictureMaker::PictureMaker(const PicturePlanner& planner, std::int64_t most_samples)
    : shapes_(planner.shapes()),
      type_(planner.output_field().type),
      most_samples_(most_samples),
      division_(planner.numbers().division),
      tables_(on_device(planner.tables().numbers())),
      values_(on_device(planner.numbers().values)) {
  for (std::size_t memory = 0; memory < between_.size(); ++memory) {
    std::int64_t most = 0;
    for (std::size_t i = memory; i + 1 < shapes_.size(); i += between_.size()) {
      most = std::max(most, shapes_[i + 1].source_stride * most_samples);
    }
    between_[memory] = DeviceMemory(static_cast<std::size_t>(most));
  }
}

void PictureMaker::make(const std::byte* set, const PicturePass* passes, std::int64_t samples,
                        void* out, Stream stream) const {
  if (samples > most_samples_) {
    throw Error(ErrorKind::Options, fmt::format("pictures: expected at most {} samples, found {}",
                                                most_samples_, samples));
  }
  const auto* sources = set;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const bool is_last = i + 1 == shapes_.size();
    auto* const between = between_[i % between_.size()].data();
    make_pictures({.shape = shapes_[i],
                   .passes = passes + static_cast<std::int64_t>(i) * samples,
                   .tables = tables_.as<std::int32_t>(),
                   .levels = {values_.as<float>(), division_},
                   .sources = reinterpret_cast<const std::uint8_t*>(sources),
                   .samples = samples,
                   .type = is_last ? type_ : DataType::U8,
                   .out = is_last ? out : between,
                   .out_stride = is_last ? numbers_of(shapes_[i]) : shapes_[i + 1].source_stride},
                  stream);
    sources = between;
  }
}

}  // namespace lockstep::gpu
