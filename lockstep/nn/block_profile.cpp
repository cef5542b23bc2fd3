#include "lockstep/nn/block_profile.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/nn/block_sharing.h"
#include "lockstep/nn/graph_input.h"
#include "lockstep/nn/memory/block_pool.h"
#include "lockstep/nn/memory/kept_activations.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/torch_errors.h"

namespace lockstep::nn {
namespace {

using Clock = std::chrono::steady_clock;
using Measured = std::vector<plan::BlockProfile>;

constexpr std::array kMeasuredBytes{
    &plan::BlockProfile::output_bytes, &plan::BlockProfile::kept_bytes,
    &plan::BlockProfile::forward_bytes, &plan::BlockProfile::backward_bytes};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What one action takes: seconds, and bytes of tensors before, at the most and after.
struct Cost {
  double seconds = 0;
  std::int64_t before = 0;
  std::int64_t most = 0;
  std::int64_t after = 0;
};

template <typename Action>
Cost measure(const Action& action) {
  auto& pool = KeptActivations::pool();
  pool.restart_peak();
  Cost cost{.before = static_cast<std::int64_t>(pool.use().bytes)};
  const auto start = Clock::now();
  action();
  cost.seconds = seconds_since(start);
  const auto use = pool.use();
  cost.most = static_cast<std::int64_t>(use.most_bytes);
  cost.after = static_cast<std::int64_t>(use.bytes);
  return cost;
}

/// One block while its graph is there.
struct Part {
  GraphInput input;
  at::Tensor output;
};

class Profiler {
 public:
  Profiler(Model& model, plan::ModelProfile& profile, const ProfileRequest& request, int rounds)
      : model_(&model),
        on_block_(&request.on_block),
        total_(2 * rounds * static_cast<int>(profile.blocks.size())) {
    for (const auto& block : profile.blocks) names_.push_back(block.name);
    model.set_mode(Mode::Train);
    // Gradients are there from the second micro-batch on, and then no longer the block's.
    for (const auto& [name, tensor, role] : model.tensors()) {
      if (tensor.requires_grad()) tensor.mutable_grad() = at::zeros_like(tensor);
    }
  }

  /// All blocks forward, then backward.
  Measured run(const at::Tensor& input) {
    const RandomScope scope(making_key(0));
    Measured measured(names_.size());
    std::vector<Part> parts;
    auto activation = input.detach();
    for (std::size_t i = 0; i < names_.size(); ++i) {
      parts.push_back(go_forward(i, activation, measured[i]));
      activation = parts.back().output;
    }
    auto gradient = at::ones_like(activation);
    activation.reset();
    for (auto i = names_.size(); i-- > 0;) {
      gradient = go_backward(i, std::move(parts.back()), std::move(gradient), measured[i]);
      parts.pop_back();
    }
    return measured;
  }

  void finish() { (*on_block_)(total_, total_); }

 private:
  Part go_forward(std::size_t block, const at::Tensor& activation, plan::BlockProfile& measured) {
    // What the block before gave tells by itself whether anything before it is learned.
    Part part{GraphInput(activation, activation.requires_grad()), {}};
    const auto cost = with_torch_errors(where(block), [&] {
      return measure([&] { part.output = model_->run_block(block, part.input.take()); });
    });
    measured.forward_s = cost.seconds;
    measured.output_bytes = static_cast<std::int64_t>(part.output.nbytes());
    measured.kept_bytes = cost.after - cost.before;
    measured.forward_bytes = cost.most - cost.after;
    tell();
    return part;
  }

  /// Returns the gradient of its input. Where nothing is to be derived, it takes nothing.
  at::Tensor go_backward(std::size_t block, Part part, at::Tensor gradient,
                         plan::BlockProfile& measured) {
    tell();
    if (!gradient.defined() || !part.output.requires_grad()) return {};
    const auto arriving = static_cast<std::int64_t>(gradient.storage().nbytes());
    at::Tensor leaving;
    const auto cost = with_torch_errors(where(block), [&] {
      return measure([&] {
        run_backward(std::move(part.output), std::move(gradient));
        leaving = part.input.gradient();
      });
    });
    measured.backward_s = cost.seconds;
    measured.backward_bytes = cost.most - (cost.before - arriving);
    return leaving;
  }

  std::string where(std::size_t block) const {
    return fmt::format("profile: block '{}'", names_[block]);
  }
  void tell() { (*on_block_)(++done_, total_); }

  Model* model_;
  const std::function<void(int, int)>* on_block_;
  int done_ = 0;
  int total_;
  std::vector<std::string> names_;
};

void take_bytes(plan::ModelProfile& profile, const Measured& measured) {
  for (std::size_t i = 0; i < measured.size(); ++i) {
    for (const auto bytes : kMeasuredBytes) profile.blocks[i].*bytes = measured[i].*bytes;
  }
}

/// Goes on along the line through what `once` and twice as many samples took.
void extrapolate_bytes(plan::ModelProfile& profile, const Measured& once, const Measured& twice,
                       double times) {
  for (std::size_t i = 0; i < once.size(); ++i) {
    for (const auto bytes : kMeasuredBytes) {
      const auto at_once = static_cast<double>(once[i].*bytes);
      const auto growth = static_cast<double>(twice[i].*bytes) - at_once;
      profile.blocks[i].*bytes = std::max(0L, std::lround(at_once + growth * (times - 1)));
    }
  }
}

void take_times(plan::ModelProfile& profile, const Measured& measured) {
  for (std::size_t i = 0; i < measured.size(); ++i) {
    profile.blocks[i].forward_s = measured[i].forward_s;
    profile.blocks[i].backward_s = measured[i].backward_s;
  }
}

void take_shorter_times(plan::ModelProfile& profile, const Measured& measured) {
  for (std::size_t i = 0; i < measured.size(); ++i) {
    auto& block = profile.blocks[i];
    block.forward_s = std::min(block.forward_s, measured[i].forward_s);
    block.backward_s = std::min(block.backward_s, measured[i].backward_s);
  }
}

/// For a micro-batch, where fewer samples took `once`.
void scale_bytes(plan::ModelProfile& profile, Profiler& profiler, const InputFor& input,
                 const Measured& once, const ProfileRequest& request) {
  const auto more = std::min(request.micro_batch, 2 * request.samples);
  const auto measured = profiler.run(input(more));
  if (more == request.micro_batch) return take_bytes(profile, measured);
  extrapolate_bytes(
      profile, once, measured,
      static_cast<double>(request.micro_batch) / static_cast<double>(request.samples));
}

}  // namespace

plan::ModelProfile profile_blocks(const Model& model, const InputFor& input,
                                  const ProfileRequest& request) {
  const auto start = Clock::now();
  const KeptActivations kept;
  const torch::AutoGradMode with_graph(true);
  return with_torch_errors("profile", [&] {
    auto profile = list_blocks(model);
    profile.is_timed = request.rounds > 0;
    const bool scales = request.micro_batch > 0 && request.micro_batch != request.samples;
    const auto copy = model.clone();
    Profiler profiler(*copy, profile, request, 1 + (scales ? 1 : 0) + request.rounds);
    const auto some = input(request.samples);
    const auto first = profiler.run(some);
    take_bytes(profile, first);
    if (scales) scale_bytes(profile, profiler, input, first, request);
    // It warmed up, and is the longest: but all that is known where there is no time for more.
    if (profile.is_timed) take_times(profile, first);
    for (int round = 0; round < request.rounds; ++round) {
      if (seconds_since(start) > request.most_seconds) break;
      take_shorter_times(profile, profiler.run(some));
    }
    profiler.finish();
    return profile;
  });
}

}  // namespace lockstep::nn
