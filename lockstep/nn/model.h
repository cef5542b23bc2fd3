#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep::nn {

enum class Mode { Train, Evaluate };

/// Micro-batches that are computed as one batch: those of one replica follow each other.
struct Grouping {
  std::int64_t groups = 1;
  std::int64_t replicas = 1;  ///< that they are of, each of as many
};

enum class TensorRole { Parameter, Buffer };

/// A parameter or buffer under one of its names. Tensors are references: who writes through one
/// writes the model's.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  TensorRole role;
};

/// One network that can be trained, whatever it was made of: a network of the zoo, a module of the
/// user's own (`module_model.h`), or a TorchScript file (`script_model.h`).
///
/// It belongs to one replica. Different blocks may run in different threads, one block in one at a
/// time.
class LOCKSTEP_API Model {
 public:
  virtual ~Model() = default;

  /// The names of its blocks, in order; at least one.
  virtual std::vector<std::string> block_names() const = 0;

  /// One block, on what the block before it gave. What is random in it is drawn for the current
  /// `RandomScope`. Who moves the input in gives it up: its gradient is not to be asked for.
  virtual at::Tensor run_block(std::size_t block, at::Tensor input) = 0;

  /// Every name of every parameter and buffer, a tied one under all of its names.
  virtual std::vector<NamedTensor> tensors() const = 0;

  /// Those of them that belong to a block. One may belong to several blocks; where a module lists
  /// its blocks, also to none.
  virtual std::vector<NamedTensor> block_tensors(std::size_t block) const = 0;

  virtual void set_mode(Mode mode) = 0;

  /// In training, a batch is `grouping.groups` micro-batches from here on, each of which is
  /// computed as if it came alone. Returns whether that is so: a layer that is known to look at the
  /// batch as a whole cannot be told.
  virtual bool set_grouping(const Grouping& grouping) = 0;

  /// Another one with the same weights in memory of its own. What is tied here is tied there.
  ///
  /// Errors: `Options` where the user's module cannot be cloned.
  virtual std::unique_ptr<Model> clone() const = 0;

  /// All blocks in order.
  at::Tensor forward(at::Tensor input);
};

/// A parameter or buffer with all its names: what has one place in a weight file, one gradient and
/// one state of the optimizer.
struct Slot {
  std::vector<std::string> names;  ///< sorted
  /// The tensors behind the names: one, or where a clone could tie only the memory, several that
  /// share it, of whose gradients the sum counts.
  std::vector<at::Tensor> tensors;
  TensorRole role;

  const std::string& name() const { return names.front(); }
  const at::Tensor& tensor() const { return tensors.front(); }
};

/// The tensors of a model, each once, sorted by name.
LOCKSTEP_API std::vector<Slot> slots_of(const std::vector<NamedTensor>& tensors);

/// How many numbers are learned: tied ones count once.
LOCKSTEP_API std::int64_t count_parameters(const Model& model);

/// Gives the tensors of `to` the values of those of `from`, and lets share memory what shares it
/// there.
///
/// Errors: `Options` if names or shapes differ.
LOCKSTEP_API void copy_and_tie(const std::vector<NamedTensor>& from,
                               const std::vector<NamedTensor>& to);

}  // namespace lockstep::nn
