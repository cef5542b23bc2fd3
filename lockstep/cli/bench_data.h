#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/bench_report.h"
#include "lockstep/data/sets/catalog.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// What is done to each picture.
enum class LoadWork : std::uint8_t {
  Tutorial,  ///< flip, resize to 64x64, u8
  Standard,  ///< random crop with padding, flip, normalized f32
  None,      ///< the pixels as they are
};

inline constexpr LoadWork kLoadWorks[] = {LoadWork::Tutorial, LoadWork::Standard, LoadWork::None};
std::string_view name_of(LoadWork work) noexcept;
/// Throws `Options` for other names; `where` ends in what the name was given for.
LoadWork parse_load_work(std::string_view where, const std::string& name);

struct BenchDataOptions {
  std::string dataset = "synthetic";
  data::SetOptions set{};
  std::vector<LoadWork> works{LoadWork::Tutorial, LoadWork::Standard, LoadWork::None};
  /// Loader workers; each number is measured. Unset: the loader's own choice.
  std::vector<std::optional<int>> workers{std::nullopt};
  std::int64_t batch_size = 64;
  int buffers = 4;  ///< batches that the loader has memory for
  int rounds = 9;
  Seconds round{0.25};  ///< how long each lasts
  bool against_torch = false;
};

/// Times a loader alone, with nobody to train: the largest rate at which a job could be fed.
///
/// Beside it, in the same run: threads that only copy records in random order (for `None`), threads
/// that only decode the files (for a folder of pictures), and, where asked for, torch's DataLoader
/// with torchvision's transforms on the same pictures; what both make of the first pictures of one
/// size is compared.
///
/// Throws `Unavailable` where torch is asked for and not there, `Bug` where results differ.
BenchReport bench_data(const BenchDataOptions& options, const topology::Environment& environment);

/// The pipeline of a work for the pictures of a field.
data::Pipeline pipeline_of(LoadWork work, const data::Field& image);
/// The same without its random steps.
data::Pipeline pipeline_without_chance(LoadWork work, const data::Field& image);

}  // namespace lockstep::cli
