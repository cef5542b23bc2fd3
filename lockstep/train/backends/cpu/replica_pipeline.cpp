#include "lockstep/train/backends/cpu/replica_pipeline.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/block_sharing.h"

namespace lockstep::train {
namespace {

/// Without autograd, because a graph that has saved a buffer would refuse to run backward. The
/// graph does not use the value.
void put(const std::vector<std::pair<at::Tensor, at::Tensor>>& values) {
  for (const auto& [buffer, value] : values) buffer.variable_data().copy_(value);
}

/// Gives buffers their earlier values during its lifetime.
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

at::Tensor checked_loss(const at::Tensor& loss) {
  if (loss.numel() != 1 || !loss.is_floating_point()) {
    throw Error(ErrorKind::Options,
                fmt::format("loss: expected one floating-point number, found {} {}",
                            c10::toString(loss.scalar_type()), c10::str(loss.sizes())),
                "return the mean over the micro-batch");
  }
  // With recomputation, there is no graph yet.
  if (!loss.requires_grad() && at::GradMode::is_enabled()) {
    throw Error(ErrorKind::Options,
                "loss: it does not depend on any parameter in a way that can be derived",
                "look for torch::NoGradGuard, detach() or parameters without requires_grad");
  }
  return loss;
}

BlockRange blocks_of(const PipelineSettings& settings, std::size_t stage) {
  const auto end = stage + 1 < settings.split.size()
                       ? static_cast<std::size_t>(settings.split[stage + 1])
                       : settings.may_be_cut.size();
  return {static_cast<std::size_t>(settings.split[stage]), end};
}

/// One part, or one for each block that may begin a part.
std::vector<BlockRange> parts_of(const PipelineSettings& settings, std::size_t stage) {
  const auto [first, end] = blocks_of(settings, stage);
  if (settings.recompute != Recompute::Blocks) return {{first, end}};
  std::vector<BlockRange> parts{{first, first + 1}};
  for (auto block = first + 1; block < end; ++block) {
    if (settings.may_be_cut[block]) parts.push_back({block, block});
    parts.back().end = block + 1;
  }
  return parts;
}

Stage make_stage(nn::Model& model, const PipelineSettings& settings, std::size_t stage) {
  const bool backward_follows = most_in_flight(settings.shape, static_cast<int>(stage)) == 1;
  return Stage(model, {.parts = parts_of(settings, stage),
                       .recomputes = settings.recompute != Recompute::None,
                       .keeps_last = backward_follows && stage + 1 == settings.split.size()});
}

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

/// Otherwise parameters of another part would get gradients in an undefined order.
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
  // The next stage only uses the flag whether a gradient is needed.
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

ReplicaPipeline::ReplicaPipeline(nn::Model& model, const Task& task,
                                 const PipelineSettings& settings)
    : task_(&task), micro_batches_(static_cast<std::size_t>(settings.shape.micro_batches)) {
  for (std::size_t stage = 0; stage < settings.split.size(); ++stage) {
    stages_.push_back(make_stage(model, settings, stage));
  }
}

void ReplicaPipeline::begin(const Step& step) {
  step_ = step;
  result_ = {};
}

nn::DrawKey ReplicaPipeline::key_of(std::int64_t micro_batch) const {
  return {.seed = step_.seed,
          .step = step_.step,
          .replica = step_.replica,
          .micro_batch = static_cast<std::uint32_t>(micro_batch)};
}

void ReplicaPipeline::enter(std::int64_t number, data::Batch batch, Fields fields) {
  auto& entering = micro_batch(number);
  entering.batch.emplace(std::move(batch));
  entering.fields = std::move(fields);
  const nn::RandomScope scope(key_of(number));  // the input function may use random numbers
  entering.handed = model_input(entering.fields, *task_);
  entering.is_counted = false;
}

/// A recomputed loss is not counted again.
at::Tensor ReplicaPipeline::loss_of(MicroBatch& micro_batch, const at::Tensor& output) {
  auto loss = checked_loss(task_->loss(output, micro_batch.fields));
  if (micro_batch.is_counted) return loss;
  micro_batch.is_counted = true;
  const torch::NoGradGuard no_grad;
  result_.loss += loss.item<double>();
  add_metrics(output.detach(), micro_batch.fields, *task_, result_);
  return loss;
}

void ReplicaPipeline::forward(int stage, std::int64_t number) {
  auto& passing = micro_batch(number);
  auto input = std::exchange(passing.handed, {});
  auto& computing = stages_[static_cast<std::size_t>(stage)];
  if (is_last(stage)) {
    const auto loss = computing.forward(
        std::move(input), key_of(number),
        [this, &passing](const auto& output) { return loss_of(passing, output); });
    passing.handed = at::full_like(loss, step_.loss_scale).detach();
    return;
  }
  passing.handed = computing.forward(std::move(input), key_of(number));
}

void ReplicaPipeline::backward(int stage, std::int64_t number) {
  auto& passing = micro_batch(number);
  auto gradient = std::exchange(passing.handed, {});
  passing.handed = stages_[static_cast<std::size_t>(stage)].backward(std::move(gradient));
  if (stage > 0) return;
  passing.handed.reset();
  passing.fields = {};
  passing.batch.reset();
}

}  // namespace lockstep::train
