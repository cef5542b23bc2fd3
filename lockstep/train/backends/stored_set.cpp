#include "lockstep/train/backends/stored_set.h"

#include "lockstep/gpu/pictures/picture_plan.h"

namespace lockstep::train {

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

}  // namespace lockstep::train
