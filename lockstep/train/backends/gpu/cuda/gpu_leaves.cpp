#include "lockstep/train/backends/gpu/cuda/gpu_leaves.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/types.h>

#include <algorithm>

#include "lockstep/gpu/update/changed_tensors.h"

namespace lockstep::train {
namespace {

/// The places of the tensors in flat rows: parameters, then buffers.
std::vector<gpu::Extent> extents_of(const WeightLayout& weights) {
  std::vector<gpu::Extent> extents;
  for (const auto& parameter : weights.parameters) {
    extents.push_back({parameter.first, parameter.count});
  }
  for (const auto& buffer : weights.buffers) extents.push_back({buffer.first, buffer.count});
  return extents;
}

/// A member of a struct on the GPU, as a tensor.
at::Tensor member(const at::Tensor& bytes, std::size_t offset, at::ScalarType type) {
  const auto size = static_cast<std::int64_t>(at::elementSize(type));
  return bytes.narrow(0, static_cast<std::int64_t>(offset), size).view(type).select(0, 0);
}

}  // namespace

GpuLeaves::GpuLeaves(const GpuSetup& setup, const c10::cuda::CUDAStream& stream,
                     std::unique_ptr<nn::Model> model)
    : setup_(setup),
      stream_(stream),
      state_(setup.weights, setup.shape, setup.compute, stream.device()),
      model_(std::move(model), setup.weights, state_, setup.task) {
  const auto options = at::TensorOptions(stream.device()).dtype(at::kFloat);
  const auto extents = extents_of(setup.weights);
  control_ = at::zeros({sizeof(gpu::StepControl)}, options.dtype(at::kByte));
  loss_scale_ = member(control_, offsetof(gpu::StepControl, loss_scale), at::kFloat);
  is_skipped_ = member(control_, offsetof(gpu::StepControl, skipped), at::kInt);
  step_ = at::zeros({1}, options.dtype(at::kLong));
  accumulated_ = at::zeros({setup.weights.num_parameters}, options);
  changed_ = at::zeros({std::ssize(extents)}, options);
  has_gradient_.assign(setup.weights.parameters.size(), 0);
  table_ = gpu::DeviceMemory(extents.size() * sizeof(gpu::LeafTensor));
  const auto chunks = gpu::cut_into_chunks(extents);
  const auto of_parameters = std::span(extents).first(setup.weights.parameters.size());
  num_parameter_chunks_ = static_cast<std::int32_t>(gpu::cut_into_chunks(of_parameters).size());
  chunks_ = DeviceTable<gpu::Chunk>(chunks.size());
  std::ranges::copy(chunks, chunks_.entries().begin());
  chunks_.send(this->stream());
  set_loss_scale(1, 0);
}

void GpuLeaves::prepare(const GpuWork& work) {
  work_ = work;
  input_.emplace(work.samples, work.input, stream_.device());
  fields_.emplace(work.samples, setup_.compute);
}

void GpuLeaves::set_loss_scale(double scale, std::int64_t good_steps) {
  loss_scale_.fill_(scale);
  member(control_, offsetof(gpu::StepControl, good_steps), at::kLong).fill_(good_steps);
  member(control_, offsetof(gpu::StepControl, clip), at::kFloat).fill_(1);
}

gpu::Chunks GpuLeaves::buffer_chunks() const {
  return {chunks_.data() + num_parameter_chunks_,
          static_cast<std::int32_t>(chunks_.size()) - num_parameter_chunks_};
}

void GpuLeaves::run(std::span<const GpuPass> passes, std::int64_t step, const Found& found,
                    const TakeLeaf& take_leaf) {
  const torch::NoGradGuard no_grad;
  const auto parameters = std::ssize(setup_.weights.parameters);
  changed_.narrow(0, parameters, changed_.size(0) - parameters).zero_();
  found.losses.zero_();
  found.metrics.zero_();
  const auto fields = (*fields_)(input_->step(step));
  for (const auto& pass : passes) {
    if (pass.first_micro_batch == 0) model_.begin_replica();
    add_found(pass, run_pass(pass, fields), found);
    hand_in(pass, take_leaf);
  }
}

GpuPassResult GpuLeaves::run_pass(const GpuPass& pass, const Fields& fields) {
  const torch::AutoGradMode with_graph(true);
  const auto& shape = work_.input;
  const auto replica = pass.first_replica - shape.replicas.first;
  const auto first = (replica * shape.micro_batches + pass.first_micro_batch) * shape.batch_size;
  return model_.run(fields.part(first, pass.groups() * shape.batch_size), pass, loss_scale_,
                    {.seed = setup_.seed, .step = step_.data_ptr<std::int64_t>()});
}

/// If a replica has several passes, each pass adds its share of the mean.
void GpuLeaves::add_found(const GpuPass& pass, const GpuPassResult& result, const Found& to) const {
  const auto share =
      static_cast<double>(pass.micro_batches) / static_cast<double>(work_.input.micro_batches);
  to.losses.narrow(0, pass.first_replica, pass.replicas).add_(result.losses, share);
  to.metrics.add_(result.metrics);
}

bool GpuLeaves::is_last_of_replica(const GpuPass& pass) const {
  return pass.first_micro_batch + pass.micro_batches == work_.input.micro_batches;
}

void GpuLeaves::hand_in(const GpuPass& pass, const TakeLeaf& take_leaf) {
  auto tensors = model_.leaf();
  note_gradients(tensors);
  if (is_last_of_replica(pass)) {
    gpu::mark_changed(state_.numbers().data_ptr<float>(), model_.buffers().data_ptr<float>(),
                      setup_.weights.num_parameters, buffer_chunks(), changed_.data_ptr<float>(),
                      stream());
  }
  // The buffers are means over the replicas of the pass. A leaf is a sum.
  if (pass.replicas > 1) at::Tensor(model_.buffers()).mul_(pass.replicas);
  if (pass.micro_batches == work_.input.micro_batches) {
    take_leaf(table_of(tensors));
  } else {
    accumulate(pass, std::move(tensors), take_leaf);
  }
  model_.forget_gradients();
}

void GpuLeaves::note_gradients(const std::vector<gpu::LeafTensor>& tensors) {
  bool is_news = false;
  for (std::size_t i = 0; i < has_gradient_.size(); ++i) {
    if (tensors[i].data == nullptr || has_gradient_[i] != 0) continue;
    has_gradient_[i] = 1;
    is_news = true;
  }
  if (is_news && !is_recording_) send_has_gradient();
}

void GpuLeaves::send_has_gradient() {
  gpu::copy_to_device(has_gradient_.data(), changed_.data_ptr(),
                      has_gradient_.size() * sizeof(float), stream());
}

/// Adds unrounded gradients. They are rounded once, after the last pass of the replica.
void GpuLeaves::accumulate(const GpuPass& pass, std::vector<gpu::LeafTensor> tensors,
                           const TakeLeaf& take_leaf) {
  for (auto& tensor : tensors) tensor.is_buffer = true;
  gpu::gather({.tensors = table_of(tensors),
               .chunks = parameter_chunks(),
               .leaf_type = DataType::F32,
               .combine = pass.first_micro_batch == 0 ? gpu::Combine::Write : gpu::Combine::Add,
               .node = accumulated_.data_ptr<float>(),
               .control = control()},
              stream());
  if (!is_last_of_replica(pass)) return;
  for (std::size_t i = 0; i < has_gradient_.size(); ++i) {
    tensors[i].is_buffer = false;
    tensors[i].type = DataType::F32;
    tensors[i].data = accumulated_.data_ptr<float>() + tensors[i].first;
  }
  take_leaf(table_of(tensors));
}

void GpuLeaves::gather(const gpu::LeafTensor* table, gpu::Combine combine, float* row) {
  gpu::gather({.tensors = table,
               .chunks = chunks(),
               .leaf_type = setup_.leaf_type,
               .combine = combine,
               .node = row,
               .control = control()},
              stream());
}

/// In a recording, each pass has its own table, which is filled before the first launch. Without a
/// recording, all passes use one table: the stream orders the copies and the kernels.
const gpu::LeafTensor* GpuLeaves::table_of(const std::vector<gpu::LeafTensor>& tensors) {
  const auto bytes = tensors.size() * sizeof(gpu::LeafTensor);
  if (is_recording_) {
    auto& [all, memory] = recorded_.back();
    const auto* const table = memory.as<gpu::LeafTensor>() + all.size();
    all.insert(all.end(), tensors.begin(), tensors.end());
    return table;
  }
  gpu::copy_to_device(tensors.data(), table_.data(), bytes, stream());
  return table_.as<gpu::LeafTensor>();
}

void GpuLeaves::warm_up() {
  constexpr int kRounds = 2;
  const torch::NoGradGuard no_grad;
  const auto fields = (*fields_)(input_->step(0));
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& pass : work_.passes) {
      model_.begin_replica();
      run_pass(pass, fields);
      note_gradients(model_.leaf());
      model_.forget_gradients();
    }
  }
  gpu::wait_for(stream());
  c10::cuda::CUDACachingAllocator::emptyCache();
}

void GpuLeaves::begin_recording(std::size_t most_passes) {
  // One for each pass, and one more for the last pass of a replica that has several.
  constexpr std::size_t kTables = 2;
  recorded_.push_back({{}, gpu::DeviceMemory(kTables * most_passes * table_.bytes())});
  is_recording_ = true;
}

void GpuLeaves::end_recording() {
  is_recording_ = false;
  model_.forget_gradients();
  const auto& [tensors, memory] = recorded_.back();
  gpu::copy_to_device(tensors.data(), memory.data(), tensors.size() * sizeof(gpu::LeafTensor),
                      stream());
  send_has_gradient();
  gpu::wait_for(stream());
}

}  // namespace lockstep::train
