#include "lockstep/data/dataset.h"

#include <utility>

namespace lockstep::data {

std::string_view name_of(Split split) noexcept {
  return split == Split::Train ? "train" : "test";
}

Dataset::Dataset(std::vector<Field> fields, std::vector<std::string> class_names)
    : fields_(std::move(fields)), class_names_(std::move(class_names)) {
  check_fields("data: set", fields_);
}

std::string Dataset::source_of(std::int64_t /*index*/) const {
  return {};
}

}  // namespace lockstep::data
