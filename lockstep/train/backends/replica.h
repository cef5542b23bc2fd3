#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/nn/model.h"
#include "lockstep/plan/stage_split.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// Loss and metrics that one replica computes, and the predictions of an evaluation.
struct ReplicaResult {
  double loss = 0;              ///< sum over its micro-batches
  std::vector<double> metrics;  ///< sums over its samples

  // Only if an evaluation asks for them.
  std::int64_t classes = 0;                 ///< outputs of the model
  std::vector<std::int64_t> truths{};       ///< class of each sample
  std::vector<std::int64_t> predictions{};  ///< class that the model predicts, by sample
};

/// The input of the model.
at::Tensor model_input(const Fields& fields, const Task& task);

/// The sum of a metric. Errors: `Options` if it is not one number.
at::Tensor sum_of(const Metric& metric, const at::Tensor& output, const Fields& fields);

/// Evaluates the outputs for one batch: loss, metrics and, if `class_field` is not empty, the
/// class of each sample from that field and the predicted class.
///
/// Errors: as `sum_of`; `Options` if output and field are not those of a classifier; `Data` for a
/// class that the model has no output for.
ReplicaResult evaluate_output(const at::Tensor& output, const Fields& fields, const Task& task,
                              const std::string& class_field);

/// Errors: as `sum_of`.
void add_metrics(const at::Tensor& output, const Fields& fields, const Task& task,
                 ReplicaResult& to);

/// A hash of the integer buffers, for the totals of a leaf.
std::array<float, LeafTotals::kHashBytes> hash_of_integers(std::span<const std::byte> bytes);
std::array<float, LeafTotals::kHashBytes> hash_of_integers(const WeightLayout& layout,
                                                           const std::vector<nn::Slot>& slots);

/// Throws `Options` if a replica with this hash differs from the others. `sums` are the sums of the
/// hashes of all `replicas`.
void check_integers_agree(const WeightLayout& layout, std::span<const float> sums,
                          const std::array<float, LeafTotals::kHashBytes>& hash, int replicas);

/// Throws `Options` if a module has replaced a tensor: the new tensor would not be averaged.
void check_tensors_stayed(const std::vector<nn::Slot>& before, const std::vector<nn::Slot>& now);

/// Throws `Options` for a sparse gradient, which cannot be combined with others.
void refuse_sparse(const at::Tensor& gradient, const std::string& name);

/// The gradient of a parameter, with the strides of a leaf; undefined if there is none. If the
/// parameter is tied, the gradients of its tensors are added. Errors: as `refuse_sparse`.
at::Tensor gradient_of(const nn::Slot& slot, const PlacedTensor& parameter);

/// One replica of the model. It reads the weights in place from the copy of the host. Its buffers
/// are its own during a step. One thread at a time.
class Replica {
 public:
  Replica(int number, std::unique_ptr<nn::Model> model, const WeightLayout& layout,
          const StateShape& shape);

  int number() const noexcept { return number_; }
  nn::Model& model() noexcept { return *model_; }
  const std::vector<nn::Slot>& slots() const noexcept { return slots_; }

  /// Uses the parameters at `weights`, and copies the buffers of `state`.
  void attach(const float* weights, const std::byte* state);
  void attach_frozen(const float* frozen);
  /// Sets the training mode, and disables gradients of frozen parameters.
  void prepare_to_learn();
  /// Copies the weights to memory of the model.
  void detach();

  /// Computes the mean loss and the sums of metrics of some samples, as `evaluate_output` does.
  ReplicaResult evaluate(const Fields& fields, const Task& task, const std::string& class_field);

  /// Divides the tensors among stages that begin with these blocks.
  void cut(const plan::StageSplit& split);

  struct LeafFormat {
    DataType type = DataType::F32;  ///< gradients are rounded to this type
    float loss_scale = 1;           ///< gradients are divided by it
    std::int64_t micro_batches = 1;
  };
  /// Writes the gradients and buffers of one stage into a leaf, and resets the gradients. Several
  /// threads may write the stages of a leaf at once.
  void write_leaf(int stage, std::span<float> leaf, const LeafTotals& totals,
                  const LeafFormat& format, const std::byte* state);
  /// Writes one parameter before the rest is known. `write_leaf` does not write it again.
  void write_parameter(std::size_t parameter, std::span<float> leaf, const LeafTotals& totals,
                       const LeafFormat& format);
  bool is_written(std::size_t parameter) const noexcept { return is_written_[parameter] != 0; }
  /// Writes the totals of the replica, when all stages have run backward.
  void write_results(std::span<float> leaf, const LeafTotals& totals, const ReplicaResult& result,
                     const LeafFormat& format);
  /// Copies the integer buffers as they are after the step.
  void copy_integers(std::byte* to) const;
  std::array<float, LeafTotals::kHashBytes> integer_hash() const;

 private:
  bool write_gradient(const PlacedParameter& parameter, const LeafFormat& format, float* leaf);
  bool write_buffer(const PlacedTensor& buffer, float* leaf, const std::byte* state) const;

  int number_;
  std::unique_ptr<nn::Model> model_;
  std::vector<nn::Slot> slots_;
  const WeightLayout* layout_;
  const StateShape* shape_;
  bool has_learned_ = false;
  std::vector<int> stage_of_;     ///< by slot
  std::vector<char> is_written_;  ///< into the leaf of this step, by parameter
};

}  // namespace lockstep::train
