#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/nn/graph_input.h"
#include "lockstep/nn/model.h"
#include "lockstep/nn/random/random_scope.h"

namespace lockstep::train {

/// Blocks [first, end) of a model.
struct BlockRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// How a stage computes.
struct StageSettings {
  /// Parts of it, in order, each of which is a graph of its own. Parts that share a parameter are
  /// one part: or the order in which its gradients are added would depend on the parts.
  std::vector<BlockRange> parts;
  /// Parts keep their input alone, and compute the rest again when they go backward.
  bool recomputes = false;
  /// But for the last one: its backward follows at once.
  bool keeps_last = true;
};

/// One stage of one replica: takes micro-batches forward in order, and backward in order. On one
/// thread at a time.
///
/// Computing again gives the same bits as before and changes nothing: what is random is drawn for
/// the same key, and buffers are for that time what they were when the part was first computed.
///
/// What is drawn in a backward pass, by somebody's own derivative, is drawn for the micro-batch; it
/// is not the same for another number of parts.
///
/// Errors: `Options` where a part that is to be computed again has changed its input in place, and
/// where one of several learns what is not its own.
class Stage {
 public:
  /// Makes of the model's output what is to be derived: the last stage has one.
  using Head = std::function<at::Tensor(const at::Tensor& output)>;

  Stage(nn::Model& model, StageSettings settings);

  /// What the next stage goes on with, or what the head made of it.
  at::Tensor forward(at::Tensor input, const nn::DrawKey& key, const Head& head = {});

  /// For the oldest micro-batch that went forward. Takes the gradient of what `forward` returned,
  /// and returns that of its input; undefined where nothing has to be derived.
  at::Tensor backward(at::Tensor gradient);

 private:
  /// A buffer, and what it was.
  using Values = std::vector<std::pair<at::Tensor, at::Tensor>>;
  /// What is kept of a part for one micro-batch.
  struct Kept {
    std::optional<nn::GraphInput> graph{};
    at::Tensor output{};
    // To compute it again:
    at::Tensor input{};
    std::int64_t version = 0;  ///< of the input: how often it was changed in place
    bool wants_gradient = false;
    Values buffers{};
  };
  struct Pass {
    nn::DrawKey key;
    Head head;
    std::vector<Kept> parts;
  };

  bool records(std::size_t part) const noexcept;
  bool is_learned(std::size_t part) const noexcept { return learned_[part]; }
  at::Tensor run(std::size_t part, at::Tensor activation);
  at::Tensor record(std::size_t part, const at::Tensor& input, Kept& kept, const Head& head);
  at::Tensor run_unrecorded(std::size_t part, const at::Tensor& input, Kept& kept,
                            const Head& head);
  void compute_again(std::size_t part, Pass& pass);
  void check_input_stayed(std::size_t part, const at::Tensor& input, std::int64_t version) const;
  void check_uses_once(std::size_t part, const at::Tensor& output);
  Values values_of_buffers(std::size_t part) const;

  nn::Model* model_;
  StageSettings settings_;
  std::vector<std::vector<at::Tensor>> buffers_;  ///< by part
  std::vector<bool> learned_;                     ///< by part: it has parameters that are learned
  std::vector<bool> checked_;                     ///< by part: it uses just what is its own
  std::deque<Pass> passes_;
};

}  // namespace lockstep::train
