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
#include "lockstep/optimizer/step_rules.h"
#include "lockstep/topology/placement.h"
#include "lockstep/train/api/evaluation.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/backends/gpu/gpu_passes.h"
#include "lockstep/train/backends/replica.h"
#include "lockstep/train/engine/step_backend.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// How an instance trains on its GPU, with every option decided.
struct GpuSetup {
  const WeightLayout& weights;
  const StateShape& shape;
  const Optimizer& optimizer;
  const Task& task;
  int device = 0;
  DataType compute = DataType::F32;    ///< the model computes in this type
  DataType leaf_type = DataType::F32;  ///< gradients are rounded to this type
  int replicas = 1;                    ///< R, of the job
  std::int64_t divisor = 1;            ///< of summed gradients
  optimizer::StepRules step_rules{};
  std::uint64_t seed = 0;
  bool is_deterministic = false;
  std::span<std::byte> home{};                    ///< host memory for downloads
  std::shared_ptr<const gpu::NcclGroup> group{};  ///< if the GPUs sum the gradients; else null
  ReductionOrder order = ReductionOrder::Ordered;
  std::function<void(const std::string&)> tell;
};

/// The work of each step.
struct GpuWork {
  GpuInputShape input{};
  GpuSamples samples{};
  Fuse fuse = Fuse::Auto;  ///< how passes were chosen
  std::vector<GpuPass> passes{};
  std::vector<int> leaves{};  ///< by instance
};

/// Steps that are launched together. The numbers go into tables on the GPU, which the recorded
/// steps read.
struct GpuLaunch {
  std::int64_t first_step = 0;           ///< of the training, from 0
  std::span<const double> lr_factors;    ///< by step
  std::span<const std::int64_t> counts;  ///< by parameter: updates so far
};

/// The results of one step, or of one leaf.
struct GpuStepResult {
  std::span<const float> losses;   ///< by replica of the job; a leaf has the loss of its replica
  std::span<const float> metrics;  ///< sums
  bool is_skipped = false;
};

/// A model that is trained on a GPU. The GPU has its own copy of the weights. With
/// `ResidentGpuBackend`, this copy is the newest state; with `HostSumGpuBackend`, the host has it.
///
/// `launch` records `run_step` with the operations of this class, once for each step of the launch.
/// One thread at a time. All work runs on one stream, and copies run on others. Only functions
/// whose comment says so wait for the GPU.
class GpuTraining : public StepBackend {
 public:
  /// Copies a version of the state and the frozen weights to the GPU. Waits.
  virtual void upload(const std::byte* state, const float* frozen) = 0;
  /// Copies only the weights and the buffers.
  virtual void refresh(const std::byte* state) = 0;
  /// Begins to copy the state to the host, as it is after all work so far. Later steps do not wait
  /// for the copy. A second download waits for the first.
  virtual void begin_download(std::byte* state) = 0;
  virtual bool is_downloaded() const = 0;
  virtual void wait_for_download() = 0;
  virtual void set_loss_scale(double scale, std::int64_t good_steps) = 0;

  /// Called once, before the functions below. Waits.
  virtual void prepare(GpuWork work) = 0;

  /// Takes a micro-batch of a step of the next launch. It is copied in the background, and kept
  /// until `release`, which waits for the copy.
  virtual void take(std::int64_t step, data::Batch batch) = 0;
  virtual void release() = 0;

  /// Launches steps. The first launch of a length calls `run_step` for each of its steps, and
  /// records the operations, which waits; later launches run the recording. If the model cannot be
  /// recorded, each launch calls `run_step`.
  virtual void launch(const GpuLaunch& launch) = 0;
  /// Waits until the launch is complete. The results are valid until the next launch.
  virtual std::vector<GpuStepResult> wait() = 0;

  // The host checks and reports the steps after the launch, from the results.
  void check(std::int64_t /*index*/) final {}
  void report(std::int64_t /*index*/) final {}

  /// Computes the leaf of one replica for a sum that the host makes: gradients and buffers. Waits.
  virtual GpuStepResult make_leaf(int replica, std::int64_t step, std::span<float> leaf,
                                  std::span<float> changed) = 0;
  /// Copies the integer buffers of the last leaf to the host. Waits.
  virtual void copy_integers(std::byte* to) = 0;

  /// By parameter: 0 if no replica of this instance has had a gradient so far.
  virtual std::span<const float> has_gradient() const = 0;

  /// Prepares evaluations with the state that is on the GPU, until `end_evaluation`.
  virtual void begin_evaluation(const GpuSamples& samples, WeightsKind weights) = 0;
  /// Evaluates samples as the loader has filled them, as `evaluate_output` does. Waits.
  virtual ReplicaResult evaluate(const Fields& loaded, const std::string& class_field) = 0;
  /// Computes the output for an input of the model. Waits.
  virtual at::Tensor predict(const at::Tensor& input) = 0;
  virtual void end_evaluation() = 0;
};

/// Errors: `Unavailable` if there is no such GPU, in a build without CUDA, and if the state does
/// not fit its memory.
std::unique_ptr<GpuTraining> make_gpu_training(GpuSetup setup, std::unique_ptr<nn::Model> model);

}  // namespace lockstep::train
