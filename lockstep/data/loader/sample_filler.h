#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/loader/batch_memory.h"
#include "lockstep/data/sampling/draws.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep::data {

/// Brings one sample from a data set into a batch: pictures go through the pipeline, all else is
/// copied, what varies in length is padded with zeros. Any number of threads, each with memory of
/// its own.
class SampleFiller {
 public:
  /// What a thread needs to fill samples.
  struct Scratch {
    explicit Scratch(const Dataset& set) : sample(set.fields()) {}
    Sample sample;
    data::Scratch transform;
  };

  /// The pipeline is for the field of that name; without one, pictures of any size are refused.
  /// Throws `Options`.
  SampleFiller(DatasetPtr set, const std::optional<Pipeline>& pipeline,
               const std::string& image_field);

  const Dataset& set() const noexcept { return *set_; }
  /// The fields of a batch.
  const std::vector<Field>& fields() const noexcept { return fields_; }

  /// Writes sample `index` of the set at place `position` of a batch.
  void fill(std::int64_t index, const Draws& draws, const BatchMemory& memory,
            std::int64_t position, Scratch& scratch) const;

 private:
  void copy(const Sample& sample, std::size_t field, const BatchMemory& memory,
            std::int64_t position) const;

  DatasetPtr set_;
  std::vector<Field> fields_;
  std::optional<Transform> transform_;
  std::size_t image_ = 0;  ///< the field that the pipeline is for
};

}  // namespace lockstep::data
