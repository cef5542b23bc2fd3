#pragma once

#include <cstdint>
#include <filesystem>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sets/catalog.h"
#include "lockstep/data/transform/pipeline.h"

namespace lockstep::cli {

/// The same pictures for both sides of `bench train --against torch`: 32x32x3, of ten classes.
struct BenchTrainData {
  std::filesystem::path pack;    ///< for lockstep
  std::filesystem::path pixels;  ///< u8, for numpy
  std::filesystem::path labels;  ///< i64, for numpy
  data::Normalize normalize;
};

inline constexpr std::int64_t kBenchTrainSide = 32;
inline constexpr std::int64_t kBenchTrainChannels = 3;
inline constexpr std::int64_t kBenchTrainClasses = 10;

/// The first samples of a set of gray pictures, with black around them and in three equal channels:
/// "image" u8 [32, 32, 3] and "label" i64. Where there are fewer samples, they come again.
data::DatasetPtr padded_to_32x32x3(const data::Dataset& set, std::int64_t samples);

/// Writes samples of Fashion-MNIST, padded, into a folder. Where there is none, they are made up,
/// and a line says so.
BenchTrainData write_train_data(std::int64_t samples, const std::filesystem::path& folder,
                                const data::SetOptions& where = {});

}  // namespace lockstep::cli
