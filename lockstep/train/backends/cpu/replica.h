#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/nn/model.h"
#include "lockstep/plan/stage_split.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/backends/replica_result.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// What stands for buffers of whole numbers among the totals of a leaf.
std::array<float, LeafTotals::kHashBytes> hash_of_integers(std::span<const std::byte> bytes);
std::array<float, LeafTotals::kHashBytes> hash_of_integers(const WeightLayout& layout,
                                                           const std::vector<nn::Slot>& slots);

/// Throws `Options` where a replica with this hash is not like the others, if those of all
/// `replicas` add up to `sums`.
void check_integers_agree(const WeightLayout& layout, std::span<const float> sums,
                          const std::array<float, LeafTotals::kHashBytes>& hash, int replicas);

/// Throws `Options` where a module has put another tensor in the place of one: it would go on with
/// what nobody averages.
void check_tensors_stayed(const std::vector<nn::Slot>& before, const std::vector<nn::Slot>& now);

/// Throws `Options` for a gradient that cannot be combined with others.
void refuse_sparse(const at::Tensor& gradient, const std::string& name);

/// One replica of the model. Its weights are those of the host's one copy, read in place; its
/// buffers are its own for the length of a step. One thread at a time.
class Replica {
 public:
  Replica(int number, std::unique_ptr<nn::Model> model, const WeightLayout& layout,
          const StateShape& shape);

  int number() const noexcept { return number_; }
  nn::Model& model() noexcept { return *model_; }
  const std::vector<nn::Slot>& slots() const noexcept { return slots_; }

  /// Its parameters become those at `weights`, its buffers copies of those of `state`.
  void attach(const float* weights, const std::byte* state);
  /// Frozen parameters are read there from now on.
  void attach_frozen(const float* frozen);
  /// In training mode, and without gradients for what is frozen.
  void prepare_to_learn();
  /// Weights and buffers get memory of their own again, with the values that they have.
  void detach();

  /// Computes the mean loss and the sums of metrics of some samples, as `evaluate_output` does.
  ReplicaResult evaluate(const Fields& fields, const Task& task, const std::string& class_field);

  /// Cuts it into stages that begin with these blocks: each hands in what belongs to it.
  void cut(const plan::StageSplit& split);

  struct LeafFormat {
    DataType type = DataType::F32;  ///< gradients are rounded to it
    float loss_scale = 1;           ///< and divided by this
    std::int64_t micro_batches = 1;
  };
  /// Writes what this step brought in one stage into a leaf, and forgets its gradients. The stages
  /// of a leaf may be written by several threads at once.
  void write_leaf(int stage, std::span<float> leaf, const LeafTotals& totals,
                  const LeafFormat& format, const std::byte* state);
  /// The same for one parameter of it, before the rest is known. `write_leaf` leaves it out then.
  void write_parameter(std::size_t parameter, std::span<float> leaf, const LeafTotals& totals,
                       const LeafFormat& format);
  bool is_written(std::size_t parameter) const noexcept { return is_written_[parameter] != 0; }
  /// And what belongs to no stage of its own: once, when all have gone backward.
  void write_results(std::span<float> leaf, const LeafTotals& totals, const ReplicaResult& result,
                     const LeafFormat& format);
  /// Its integer buffers as bytes, as they are after the step.
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
