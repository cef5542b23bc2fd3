#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// The values of one field for all samples, one sample after the other without gaps. Samples of a
/// varying field take their whole shape each; what is beyond their length is not looked at.
struct Array {
  DataType type = DataType::F32;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner{};  ///< keeps `bytes` alive; empty where someone else does
  std::vector<std::int64_t> lengths{};  ///< of each sample; for a varying field only
};

/// An array that has its values in a vector of its own.
template <typename T>
Array array_of(std::vector<T> values, std::vector<std::int64_t> lengths = {}) {
  auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  const auto bytes = std::as_bytes(std::span(*owner));
  return {kTypeOf<T>, bytes, std::move(owner), std::move(lengths)};
}

/// An array whose values stand elsewhere, and stay there as long as the data set lives.
template <typename T>
Array array_at(std::span<const T> values, std::vector<std::int64_t> lengths = {}) {
  return {kTypeOf<T>, std::as_bytes(values), nullptr, std::move(lengths)};
}

/// A data set in memory: an array for each field. Samples refer to it, nothing is copied.
///
///     ArrayDataset set({{"x", DataType::F32, {4}}, {"label", DataType::I64}},
///                      {array_of(x), array_of(labels)});
///
/// Errors: `Options` where an array does not fit its field or the other arrays.
class LOCKSTEP_API ArrayDataset : public Dataset {
 public:
  using SourceOf = std::function<std::string(std::int64_t index)>;

  ArrayDataset(std::vector<Field> fields, std::vector<Array> arrays,
               std::vector<std::string> class_names = {}, SourceOf source_of = {});

  std::int64_t size() const override { return size_; }
  void sample(std::int64_t index, Sample& sample) const override;
  std::string source_of(std::int64_t index) const override;

 private:
  std::int64_t count_samples(std::size_t field) const;
  void check_lengths(std::size_t field) const;

  std::vector<Array> arrays_;
  SourceOf source_of_;
  std::int64_t size_ = 0;
};

}  // namespace lockstep::data
