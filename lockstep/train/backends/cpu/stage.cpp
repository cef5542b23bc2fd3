#include "lockstep/train/backends/cpu/stage.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/block_sharing.h"

namespace lockstep::train {
namespace {

/// Behind autograd's back: graphs that have saved a buffer do not care for its value, and would
/// refuse to go backward.
void put(const std::vector<std::pair<at::Tensor, at::Tensor>>& values) {
  for (const auto& [buffer, value] : values) buffer.variable_data().copy_(value);
}

/// While it lives, buffers are what they were; then what they are now.
class BuffersThen {
 public:
  using Values = std::vector<std::pair<at::Tensor, at::Tensor>>;
  BuffersThen(Values now, const Values& then) : now_(std::move(now)) { put(then); }
  ~BuffersThen() { put(now_); }
  BuffersThen(const BuffersThen&) = delete;
  BuffersThen& operator=(const BuffersThen&) = delete;

 private:
  Values now_;
};

}  // namespace

Stage::Stage(nn::Model& model, StageSettings settings)
    : model_(&model), settings_(std::move(settings)) {
  for (const auto& part : settings_.parts) {
    auto& buffers = buffers_.emplace_back();
    bool is_learned = false;
    for (auto block = part.first; block < part.end; ++block) {
      for (const auto& named : model_->block_tensors(block)) {
        if (named.role == nn::TensorRole::Buffer) buffers.push_back(named.tensor);
        is_learned |= named.tensor.requires_grad();
      }
    }
    learned_.push_back(is_learned);
  }
  const auto blocks = model_->block_names().size();
  const bool is_whole = settings_.parts.size() == 1 && settings_.parts.front().end == blocks &&
                        settings_.parts.front().first == 0;
  checked_.assign(settings_.parts.size(), is_whole);
}

/// Another part's parameters would get gradients behind its back, in whatever order.
void Stage::check_uses_once(std::size_t part, const at::Tensor& output) {
  if (checked_[part] || !output.requires_grad()) return;
  checked_[part] = true;
  nn::check_uses(*model_, settings_.parts[part].first, settings_.parts[part].end, output);
}

bool Stage::records(std::size_t part) const noexcept {
  const bool is_last = part + 1 == settings_.parts.size();
  return !settings_.recomputes || (is_last && settings_.keeps_last);
}

at::Tensor Stage::run(std::size_t part, at::Tensor activation) {
  const auto& [first, end] = settings_.parts[part];
  for (auto block = first; block < end; ++block) {
    activation = model_->run_block(block, std::move(activation));
  }
  return activation;
}

at::Tensor Stage::record(std::size_t part, const at::Tensor& input, Kept& kept, const Head& head) {
  kept.graph.emplace(input, kept.wants_gradient);
  auto output = run(part, kept.graph->take());
  check_uses_once(part, output);
  const bool is_last = part + 1 == settings_.parts.size();
  kept.output = is_last && head ? head(output) : std::move(output);
  return kept.output;
}

at::Tensor Stage::run_unrecorded(std::size_t part, const at::Tensor& input, Kept& kept,
                                 const Head& head) {
  const torch::NoGradGuard no_grad;
  kept.input = input;
  kept.buffers = values_of_buffers(part);
  kept.version = static_cast<std::int64_t>(input._version());
  auto output = run(part, input);
  check_input_stayed(part, input, kept.version);
  const bool is_last = part + 1 == settings_.parts.size();
  return is_last && head ? head(output) : output;
}

void Stage::check_input_stayed(std::size_t part, const at::Tensor& input,
                               std::int64_t version) const {
  if (static_cast<std::int64_t>(input._version()) == version) return;
  throw Error(ErrorKind::Options,
              fmt::format("recompute: the input of block '{}' is changed in place, by it or by one "
                          "behind it, so it cannot be computed again",
                          model_->block_names()[settings_.parts[part].first]),
              "let the operation return a new tensor, or train without --recompute");
}

at::Tensor Stage::forward(at::Tensor input, const nn::DrawKey& key, const Head& head) {
  const nn::RandomScope scope(key);
  Pass pass{key, head, std::vector<Kept>(settings_.parts.size())};
  bool wants_gradient = input.requires_grad();
  auto activation = std::move(input);
  for (std::size_t part = 0; part < settings_.parts.size(); ++part) {
    auto& kept = pass.parts[part];
    kept.wants_gradient = wants_gradient;
    activation = records(part) ? record(part, activation, kept, head)
                               : run_unrecorded(part, activation, kept, head);
    wants_gradient = records(part)
                         ? activation.requires_grad()
                         : (wants_gradient || is_learned(part)) && activation.is_floating_point();
    if (part + 1 < settings_.parts.size()) activation = activation.detach();
  }
  passes_.push_back(std::move(pass));
  // Only whether it is to be derived counts for who comes next.
  if (activation.requires_grad() == wants_gradient) return activation;
  return activation.detach().requires_grad_(wants_gradient);
}

Stage::Values Stage::values_of_buffers(std::size_t part) const {
  Values values;
  for (const auto& buffer : buffers_[part]) values.emplace_back(buffer, buffer.clone());
  return values;
}

void Stage::compute_again(std::size_t part, Pass& pass) {
  auto& kept = pass.parts[part];
  const torch::AutoGradMode with_graph(true);
  const nn::RandomScope scope(pass.key);
  check_input_stayed(part, kept.input, kept.version);
  const BuffersThen then(values_of_buffers(part), kept.buffers);
  record(part, std::exchange(kept.input, {}), kept, pass.head);
}

at::Tensor Stage::backward(at::Tensor gradient) {
  auto pass = std::move(passes_.front());
  passes_.pop_front();
  for (auto part = settings_.parts.size(); part-- > 0;) {
    auto& kept = pass.parts[part];
    if (!gradient.defined()) return {};
    if (!kept.graph) compute_again(part, pass);
    if (!kept.output.requires_grad()) return {};
    const nn::RandomScope scope(pass.key);
    nn::run_backward(std::move(kept.output), std::exchange(gradient, {}));
    gradient = kept.graph->gradient();
    kept = {};
  }
  return gradient;
}

}  // namespace lockstep::train
