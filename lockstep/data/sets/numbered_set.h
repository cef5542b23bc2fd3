#pragma once

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Stands for a set whose samples are elsewhere, as on a GPU: each has one field, its number.
class NumberedSet final : public Dataset {
 public:
  static constexpr const char* kField = "number";

  explicit NumberedSet(std::int64_t size) : Dataset({{kField, DataType::I64}}), size_(size) {}

  std::int64_t size() const override { return size_; }
  void sample(std::int64_t index, Sample& sample) const override { sample.set(0, index); }

 private:
  std::int64_t size_;
};

}  // namespace lockstep::data
