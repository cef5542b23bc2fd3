#include "lockstep/data/loader/sample_filler.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

DatasetPtr checked(DatasetPtr set) {
  if (set) return set;
  throw Error(ErrorKind::Options, "loader: expected a dataset, found a null pointer");
}

}  // namespace

SampleFiller::SampleFiller(DatasetPtr set, const std::optional<Pipeline>& pipeline,
                           const std::string& image_field)
    : set_(checked(std::move(set))), fields_(set_->fields()) {
  if (pipeline) {
    image_ = position_of(image_field, fields_);
    transform_.emplace(*pipeline, fields_[image_]);
    fields_[image_] = transform_->output_field();
  }
  for (const auto& field : fields_) {
    if (field.kind != FieldKind::AnySizeImage) continue;
    throw Error(ErrorKind::Options,
                fmt::format("loader: field '{}': pictures of one size were expected, and those of "
                            "this set differ in size",
                            field.name),
                "add a Resize or RandomResizedCrop step to the pipeline");
  }
}

void SampleFiller::fill(std::int64_t index, const Draws& draws, const BatchMemory& memory,
                        std::int64_t position, Scratch& scratch) const {
  if (index < 0 || index >= set_->size()) {
    throw Error(ErrorKind::Options,
                fmt::format("expected one of the set's {} samples; the plan is of a larger set",
                            set_->size()));
  }
  auto& sample = scratch.sample;
  sample.clear();
  set_->sample(index, sample);
  sample.check_complete();
  for (std::size_t field = 0; field < fields_.size(); ++field) {
    if (transform_ && field == image_) {
      transform_->apply(sample.image(field), draws, scratch.transform,
                        memory.value(field, position));
    } else {
      copy(sample, field, memory, position);
    }
  }
}

void SampleFiller::copy(const Sample& sample, std::size_t field, const BatchMemory& memory,
                        std::int64_t position) const {
  auto* const to = memory.value(field, position);
  const auto all = memory.value_bytes(field);
  if (fields_[field].kind == FieldKind::Fixed) {
    std::memcpy(to, sample.data(field), all);
    return;
  }
  const auto length = sample.length(field);
  const auto entry = all / static_cast<std::size_t>(fields_[field].shape[0]);
  const auto filled = static_cast<std::size_t>(length) * entry;
  if (filled > 0) std::memcpy(to, sample.data(field), filled);
  std::memset(to + filled, 0, all - filled);
  memory.lengths(field)[position] = length;
}

}  // namespace lockstep::data
