#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep::nn {

template <typename Class, typename Result, typename Argument>
std::remove_cvref_t<Argument> argument_of(Result (Class::*)(Argument) const);

/// `c10::optional<torch::Device>` in libtorch 1.13, `std::optional<torch::Device>` in 2.x.
using OptionalDevice = decltype(argument_of(&torch::nn::Module::clone));

/// What a network takes: pictures [N, channels, height, width] no smaller than this, and where
/// `exact` is set, of just this size.
struct InputShape {
  std::int64_t channels = 3;
  std::int64_t height = 1;
  std::int64_t width = 1;
  bool exact = false;
};

/// A part of a network that is computed as one, and after which a stage may end.
struct Block {
  std::string name;  ///< as in "layer3.8"
  /// What belongs to it: modules, as "conv1", "bn1" or "layer3.8", and tensors that are registered
  /// in none of them, as "scale".
  std::vector<std::string> modules;
  std::function<at::Tensor(at::Tensor)> run;
};

/// A network that is a sequence of named blocks, each of which takes what the one before gave.
///
/// It is described by a function that registers modules and adds blocks. A clone is described by
/// the same function and takes over all weights.
///
///     auto net = std::make_shared<Network>([](Network& net) {
///       auto linear = net.register_module("linear", torch::nn::Linear(64, 10));
///       net.add_block({"head", {"linear"}, [linear](auto x) { return linear->forward(x); }});
///     });
///
/// Errors: `Options` for a picture that it cannot take.
class LOCKSTEP_API Network : public torch::nn::Module {
 public:
  using Describe = std::function<void(Network&)>;

  explicit Network(Describe describe);

  /// For `describe`. What a block runs holds on to modules, never to the network.
  void add_block(Block block) { blocks_.push_back(std::move(block)); }
  void set_input(const InputShape& input) { input_ = input; }

  /// Refuses pictures of this shape, [channels, height, width], if the network cannot take them.
  void check_picture(const std::vector<std::int64_t>& shape) const;

  const std::vector<Block>& blocks() const noexcept { return blocks_; }
  /// Who moves the input in gives it up: then a block may keep its gradient to itself.
  at::Tensor run_block(std::size_t block, at::Tensor input);

  /// All blocks, in order. Only a `Model` tells draws apart by block: a network within a block of
  /// another draws for that one.
  at::Tensor forward(at::Tensor input);

  std::shared_ptr<torch::nn::Module> clone(const OptionalDevice& device = {}) const override;

 private:
  Describe describe_;
  std::vector<Block> blocks_;
  std::optional<InputShape> input_;
};

}  // namespace lockstep::nn
