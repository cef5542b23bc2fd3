#pragma once

#include <cstdint>
#include <filesystem>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sets/catalog.h"
#include "lockstep/data/transform/pipeline.h"

namespace lockstep::bench {

/// Files with the same images for both sides of `bench train --against torch`: 32x32x3, ten
/// classes.
struct TrainImages {
  std::filesystem::path pack;    ///< for lockstep
  std::filesystem::path pixels;  ///< u8, for numpy
  std::filesystem::path labels;  ///< i64, for numpy
  data::Normalize normalize;
};

inline constexpr std::int64_t kImageSide = 32;
inline constexpr std::int64_t kImageChannels = 3;
inline constexpr std::int64_t kImageClasses = 10;

/// The first samples of a set of gray images, with a black border and three equal channels: "image"
/// u8 [32, 32, 3] and "label" i64. Repeats the samples if there are fewer.
data::DatasetPtr padded_to_32x32x3(const data::Dataset& set, std::int64_t samples);

/// Writes padded samples of Fashion-MNIST to a folder. If Fashion-MNIST is not installed, prints a
/// line and writes synthetic images.
TrainImages write_train_data(std::int64_t samples, const std::filesystem::path& folder,
                             const data::SetOptions& where = {});

}  // namespace lockstep::bench
