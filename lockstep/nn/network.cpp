#include "lockstep/nn/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/module_tensors.h"

namespace lockstep::nn {
namespace {

[[noreturn]] void refuse_picture(const std::string& expected,
                                 const std::vector<std::int64_t>& shape,
                                 const std::string& hint = {}) {
  throw Error(
      ErrorKind::Options,
      fmt::format("network: expected pictures of {}, found [{}]", expected, fmt::join(shape, ", ")),
      hint);
}

}  // namespace

Network::Network(Describe describe) : describe_(std::move(describe)) {
  describe_(*this);
}

void Network::check_picture(const std::vector<std::int64_t>& shape) const {
  if (!input_) return;
  const auto& [channels, height, width, exact] = *input_;
  if (shape.size() != 3) refuse_picture("shape [channels, height, width]", shape);
  if (shape[0] != channels) {
    refuse_picture(fmt::format("{} channels", channels), shape,
                   fmt::format("make the network for {} channels", shape[0]));
  }
  if (shape[1] < height || shape[2] < width) {
    refuse_picture(fmt::format("at least {} x {}", height, width), shape,
                   "resize them: --image-size");
  }
  if (exact && (shape[1] != height || shape[2] != width)) {
    refuse_picture(fmt::format("just {} x {}", height, width), shape,
                   "make the network for this size, or resize the pictures: --image-size");
  }
}

at::Tensor Network::run_block(std::size_t block, at::Tensor input) {
  if (block != 0 || !input_) return blocks_.at(block).run(std::move(input));
  check_picture(input.dim() == 0 ? std::vector<std::int64_t>{} : input.sizes().slice(1).vec());
  return blocks_[0].run(input.contiguous(at::MemoryFormat::ChannelsLast));
}

at::Tensor Network::forward(at::Tensor input) {
  auto activation = std::move(input);
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    activation = run_block(block, std::move(activation));
  }
  return activation;
}

std::shared_ptr<torch::nn::Module> Network::clone(const OptionalDevice& device) const {
  auto copy = std::make_shared<Network>(describe_);
  if (device) copy->to(*device);
  copy_module(*this, *copy);
  return copy;
}

}  // namespace lockstep::nn
