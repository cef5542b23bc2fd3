#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/report.h"
#include "lockstep/data/sets/catalog.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/topology/environment.h"

namespace lockstep::bench {

/// The work on each image.
enum class LoadWork : std::uint8_t {
  Tutorial,  ///< flip, resize to 64x64, u8
  Standard,  ///< random crop with padding, flip, normalized f32
  None,      ///< the pixels as they are
};

inline constexpr LoadWork kLoadWorks[] = {LoadWork::Tutorial, LoadWork::Standard, LoadWork::None};
std::string_view name_of(LoadWork work) noexcept;
/// Throws `Options` for other names. `where` begins the message.
LoadWork parse_load_work(std::string_view where, const std::string& name);

struct DataOptions {
  std::string dataset = "synthetic";
  data::SetOptions set{};
  std::vector<LoadWork> works{LoadWork::Tutorial, LoadWork::Standard, LoadWork::None};
  /// Numbers of loader workers to measure. Unset: the loader's own choice.
  std::vector<std::optional<int>> workers{std::nullopt};
  std::int64_t batch_size = 64;
  int buffers = 4;  ///< batches that the loader has memory for
  int rounds = 9;
  Seconds round{0.25};  ///< length of a round
  bool against_torch = false;
};

/// Measures a loader without training: the largest rate at which it can feed a job.
///
/// In the same run, measures
///   - for `None`, threads that only copy records in random order,
///   - for a folder of images, threads that only decode the files,
///   - if asked for, torch's DataLoader with torchvision's transforms on the same images. The
///   first
///     images are compared with those of lockstep, if all have one size.
///
/// Throws `Unavailable` if torch is asked for and missing, `Bug` if results differ.
Report measure_data(const DataOptions& options, const topology::Environment& environment);

/// The pipeline of a work for the images of a field.
data::Pipeline pipeline_of(LoadWork work, const data::Field& image);
/// The same pipeline without its random steps.
data::Pipeline pipeline_without_chance(LoadWork work, const data::Field& image);

}  // namespace lockstep::bench
