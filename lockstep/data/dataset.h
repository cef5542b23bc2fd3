#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

/// A part of a published dataset: for training or for testing.
enum class Split : std::uint8_t { Train, Test };

/// The indices first, first + 1, ..., end - 1 of a dataset.
struct IndexRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
  bool operator==(const IndexRange&) const = default;
};

LOCKSTEP_API std::string_view name_of(Split split) noexcept;

/// A numbered collection of samples. A set of your own says in its constructor which fields its
/// samples have, and overrides `size` and `sample`.
///
/// `sample` is called by several threads at once, for any index, in any order, and must give the
/// same sample for the same index in every process.
///
/// Errors: what `sample` throws ends the epoch, with the index and `source_of` it in the message;
/// kind `Data` for what is wrong on disk.
class LOCKSTEP_API Dataset {
 public:
  explicit Dataset(std::vector<Field> fields, std::vector<std::string> class_names = {});
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual std::int64_t size() const = 0;
  virtual void sample(std::int64_t index, Sample& sample) const = 0;

  /// Where a sample comes from, for messages: a file, as a rule. Empty where there is nothing to
  /// say.
  virtual std::string source_of(std::int64_t index) const;

  const std::vector<Field>& fields() const noexcept { return fields_; }
  /// What the numbers of the field "label" stand for; empty where nobody knows.
  const std::vector<std::string>& class_names() const noexcept { return class_names_; }

 private:
  std::vector<Field> fields_;
  std::vector<std::string> class_names_;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

}  // namespace lockstep::data
