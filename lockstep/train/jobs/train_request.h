#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/loader/loader.h"
#include "lockstep/data/sampling/batch_shape.h"
#include "lockstep/data/sets/catalog.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/nn/model_request.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/optimizer/precision.h"
#include "lockstep/optimizer/schedule.h"
#include "lockstep/plan/pipeline_schedule.h"
#include "lockstep/train/api/options.h"

namespace lockstep::train {

/// The request of `lockstep train`. Needs no torch, so that the command line can be parsed without.
struct TrainRequest {
  std::string command = "train";  ///< for error messages

  // Model and data.
  nn::ModelRequest model;  ///< the dataset sets the image size and the classes
  std::string dataset = "fashion-mnist";
  data::SetOptions set{};
  std::optional<data::ImageSize> image_size{};  ///< images are resized to it
  /// The dataset whose mean and deviation normalize the images; empty: `dataset`.
  std::string normalize_as{};
  data::Augment augment = data::Augment::Standard;
  std::optional<std::int64_t> limit_train{};
  std::optional<std::int64_t> limit_test{};

  // Batches and replicas. A launcher may have set the replicas of the job.
  std::int64_t batch_size = 64;
  std::int64_t gradient_accumulation = 1;
  std::int64_t device_iterations = 1;
  std::optional<int> replicas{};
  std::optional<int> threads_per_device{};

  // Stages of a replica. A launcher may have set the devices of the job.
  std::optional<int> devices_per_replica{};
  std::vector<std::string> split{};  ///< blocks that begin a stage; empty: the fastest split
  PipelineSchedule pipeline = PipelineSchedule::OneForwardOneBackward;
  Recompute recompute = Recompute::None;
  Overlap overlap = Overlap::On;
  std::string cache_path{};  ///< the plan cache; empty: set by the environment

  // Optimization.
  std::int64_t epochs = 5;
  Optimizer optimizer = SGD();
  Schedule schedule{};
  double label_smoothing = 0;
  Precision precision = Precision::P32_32;
  Half half = Half::BF16;
  Reduction reduction = Reduction::Mean;
  ReductionOrder order = ReductionOrder::Ordered;
  std::uint64_t seed = 0;

  // Devices.
  std::optional<DeviceKind> device{};  ///< unset: a GPU if there is one
  Fuse fuse = Fuse::Auto;
  bool deterministic = false;
  std::int64_t snapshot_every = 8;
  bool data_on_device = false;
  GpuTransport gpu_transport = GpuTransport::Auto;

  // Loading.
  data::LoaderMode loader_mode = data::LoaderMode::Async;
  std::optional<int> workers{};
  bool eight_bit_io = false;

  // Checkpoints.
  std::string checkpoint_dir{};  ///< empty: no checkpoints
  std::string checkpoint_every = "1 epoch";
  int checkpoint_keep = 2;
  std::optional<std::string> resume{};  ///< as for `Options::resume`

  // Results.
  std::int64_t eval_every = 1;    ///< epochs; 0: only at the end
  std::int64_t digest_every = 0;  ///< optimizer steps; 0: never
  std::string log_dir{};          ///< for digests
  std::string export_to{};        ///< a weight file
  std::string summary_file{};     ///< JSON
  std::string report_file{};      ///< an HTML page about the run
  std::string trace_file{};       ///< trace events of all threads
  std::string tensorboard_dir{};  ///< for an event file of TensorBoard
};

/// Weights of a checkpoint: the trained ones, or the average that the optimizer keeps of them.
enum class CheckpointWeights : std::uint8_t {
  Auto,  ///< the average if the checkpoint has one, as the tests of the training use it
  Trained,
  Average,
};

constexpr std::string_view name_of(CheckpointWeights weights) noexcept {
  if (weights == CheckpointWeights::Auto) return "auto";
  return weights == CheckpointWeights::Trained ? "trained" : "average";
}

/// What `lockstep eval` is asked for beside a `TrainRequest`, of which it uses model, data, batch
/// size, replicas, threads, precision, device and loading.
struct EvaluationRequest {
  data::Split split = data::Split::Test;      ///< not used for a pack, which is one split
  std::optional<data::IndexRange> samples{};  ///< of the split; empty: all
  /// The data set is the one that the checkpoint was trained with. If it is a pack, the test split
  /// is the pack beside it.
  bool has_set_of_training = false;
  std::string checkpoint{};  ///< a checkpoint or a folder of them; empty: `model.init_from` counts
  CheckpointWeights weights = CheckpointWeights::Auto;
};

}  // namespace lockstep::train
