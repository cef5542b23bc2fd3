#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/data/loader/batch.h"
#include "lockstep/gpu/update/nccl.h"
#include "lockstep/nn/model.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/optimizer/precision.h"
#include "lockstep/topology/placement.h"
#include "lockstep/train/batch_tensors.h"
#include "lockstep/train/device_options.h"
#include "lockstep/train/fields.h"
#include "lockstep/train/replica_result.h"
#include "lockstep/train/stored_set.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_state.h"
#include "lockstep/train/weight_layout.h"

namespace lockstep::train {

/// Micro-batches that a GPU computes as one batch: those of one replica follow each other.
struct GpuPass {
  int first_replica = 0;
  int replicas = 1;
  std::int64_t first_micro_batch = 0;  ///< 0 unless it is a part of what one replica has
  std::int64_t micro_batches = 1;      ///< of each replica

  std::int64_t groups() const noexcept { return replicas * micro_batches; }
  bool operator==(const GpuPass&) const = default;
};

/// The samples of the steps that are on a GPU at once.
struct GpuInputShape {
  topology::ReplicaRange replicas{};  ///< of this instance
  std::int64_t micro_batches = 1;     ///< G
  std::int64_t batch_size = 1;        ///< B
  std::int64_t steps = 1;

  std::int64_t samples_per_step() const noexcept {
    return replicas.count * micro_batches * batch_size;
  }
};

/// The passes of a step, in order. `most_groups` micro-batches fit a pass.
std::vector<GpuPass> choose_passes(const GpuInputShape& input, Fuse fuse, bool is_deterministic,
                                   std::int64_t most_groups);

/// How an instance trains on its GPU. Everything decided.
struct GpuSetup {
  const WeightLayout& weights;
  const StateShape& shape;
  const Optimizer& optimizer;
  const Task& task;
  int device = 0;
  DataType compute = DataType::F32;    ///< what the model computes in
  DataType leaf_type = DataType::F32;  ///< what gradients are rounded to
  int replicas = 1;                    ///< R, of the job
  std::int64_t divisor = 1;            ///< of summed gradients
  std::uint64_t seed = 0;
  bool is_deterministic = false;
  std::span<std::byte> home{};  ///< where downloads will go
  /// Of all instances, where they add up gradients on their GPUs; else nothing.
  std::shared_ptr<const gpu::NcclGroup> group{};
  ReductionOrder order = ReductionOrder::Ordered;
  std::function<void(const std::string&)> tell;
};

/// How a loader gives samples; or, where they are stored on the GPU, how they are made there.
struct GpuSamples {
  std::vector<data::Field> fields{};
  std::optional<PictureFormat> picture{};  ///< among them
  std::optional<StoredSet> stored{};       ///< of which the loader gives numbers
};

/// What steps are made of.
struct GpuWork {
  GpuInputShape input{};
  GpuSamples samples{};
  Fuse fuse = Fuse::Auto;  ///< how passes were chosen
  std::vector<GpuPass> passes{};
  std::vector<int> leaves{};  ///< by instance: how many its passes come to
};

/// Leaves of the tree that passes come to.
int count_leaves(std::span<const GpuPass> passes);

/// Steps that are launched at once.
struct GpuLaunch {
  std::int64_t first_step = 0;           ///< of the training, from 0
  std::span<const double> lr_factors;    ///< by step
  std::span<const std::int64_t> counts;  ///< by parameter: updates so far
};

/// What one step, or one leaf, came to.
struct GpuRecord {
  /// By replica of the job: of those that took part, which is all of them after a launch.
  std::span<const float> losses;
  std::span<const float> metrics;  ///< sums
  bool is_skipped = false;
};

/// A model that is trained on a GPU. The weights are there, in place; the host has what was last
/// brought home.
///
/// One thread at a time, all work on one stream. Nothing waits for the GPU, but for what says so.
class GpuTraining {
 public:
  virtual ~GpuTraining() = default;

  /// Takes over a version of the state that the host has, and the weights that are frozen.
  virtual void upload(const std::byte* state, const float* frozen) = 0;
  /// The same for weights and buffers alone.
  virtual void refresh(const std::byte* state) = 0;
  /// Begins to give back the state that all work so far leads to. Steps that are launched meanwhile
  /// do not wait for it, and the next one of these waits for the last.
  virtual void begin_download(std::byte* state) = 0;
  virtual bool is_downloaded() const = 0;
  virtual void wait_for_download() = 0;
  /// Loss scaling goes on with this.
  virtual void set_loss_scale(double scale, std::int64_t good_steps) = 0;

  /// Before the first of what follows.
  virtual void prepare(GpuWork work) = 0;

  /// A micro-batch of a step that will be launched next. It is copied in the background, and kept
  /// until `release`, which waits for that.
  virtual void take(std::int64_t step, data::Batch batch) = 0;
  virtual void release() = 0;

  /// Whole steps in one launch: forward, backward, the tree over replicas, the update.
  virtual void launch(const GpuLaunch& launch) = 0;
  /// Until they are done; the records are valid until the next launch.
  virtual std::vector<GpuRecord> wait() = 0;

  /// What one replica has found in the step that was taken, for a sum that is made elsewhere:
  /// gradients and buffers, as they stand in a leaf. Waits for it.
  virtual GpuRecord make_leaf(int replica, std::int64_t step, std::span<float> leaf,
                              std::span<float> changed) = 0;
  /// Buffers of whole numbers of the last leaf, as bytes. Waits.
  virtual void copy_integers(std::byte* to) = 0;

  /// By parameter: 0 where no replica had a gradient in the last launch.
  virtual std::span<const float> has_gradient() const = 0;

  enum class Weights : std::uint8_t { Trained, Average };
  /// From here on it evaluates, with the state as it is on the GPU; until `end_evaluation`.
  virtual void begin_evaluation(const GpuSamples& samples, Weights weights) = 0;
  /// Evaluates samples as the loader has filled them, as `evaluate_output` does. Waits.
  virtual ReplicaResult evaluate(const Fields& loaded, const std::string& class_field) = 0;
  /// Of what the model takes. Waits.
  virtual at::Tensor predict(const at::Tensor& input) = 0;
  virtual void end_evaluation() = 0;
};

/// Errors: `Unavailable` where there is no such GPU, in a build without CUDA, and for what does not
/// fit its memory, with what would.
std::unique_ptr<GpuTraining> make_gpu_training(GpuSetup setup, std::unique_ptr<nn::Model> model);

}  // namespace lockstep::train
