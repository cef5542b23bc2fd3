#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/transform/pipeline.h"

namespace lockstep::train {

/// A data set that lies in a GPU's memory, and what is made there of its samples: what a loader
/// would have made of them, bit for bit. The loader gives their numbers alone.
struct StoredSet {
  data::DatasetPtr set;
  std::string image_field;
  std::optional<data::Pipeline> pipeline{};  ///< for pictures; they become numbers, channels last
  std::uint64_t seed = 0;                    ///< of random decisions

  /// The position of the pictures that the pipeline is for.
  std::optional<std::size_t> picture() const;
  /// What is made of a sample. Errors: `Options` for what cannot be made on a GPU.
  std::vector<data::Field> fields() const;
};

}  // namespace lockstep::train
