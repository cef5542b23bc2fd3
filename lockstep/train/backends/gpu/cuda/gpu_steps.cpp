#include "lockstep/train/backends/gpu/cuda/gpu_steps.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/train/engine/run_step.h"

namespace lockstep::train {
namespace {

std::string replicas_text(const topology::ReplicaRange& replicas) {
  const int last = replicas.first + replicas.count - 1;
  return replicas.count == 1 ? fmt::format("replica {}", last)
                             : fmt::format("replicas {} to {}", replicas.first, last);
}

std::string text_of(const GpuSite& site) {
  const auto step = site.step ? fmt::format(", step {}", *site.step + 1) : std::string();
  return fmt::format("GPU {}, {}{}", site.device, replicas_text(site.replicas), step);
}

std::string hint_for_memory(const GpuSite& site) {
  return site.fuse == Fuse::Off ? "a lower --batch-size, or --precision 16.16"
                                : "--fuse off, a lower --batch-size or fewer --device-iterations";
}

std::string first_line(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

bool begins_with_cuda(const std::string& line) {
  return line.starts_with("CUDA") || line.starts_with("cuDNN") || line.starts_with("cuBLAS");
}

Error gpu_error(const GpuSite& site, const c10::Error& error) {
  const auto line = first_line(error);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return {ErrorKind::Unavailable, fmt::format("{}: {}", text_of(site), line),
            hint_for_memory(site)};
  }
  if (begins_with_cuda(line)) {
    return {ErrorKind::Bug, fmt::format("{}: {}", text_of(site), line),
            "run once more with CUDA_LAUNCH_BLOCKING=1: it then fails where the mistake is"};
  }
  return nn::torch_error(text_of(site), error);
}

/// Other kinds of errors already say what to change.
Error gpu_error(const GpuSite& site, const Error& error) {
  const auto message = fmt::format("{}: {}", text_of(site), error.what());
  if (error.kind() == ErrorKind::Unavailable) return {error.kind(), message, hint_for_memory(site)};
  if (error.kind() == ErrorKind::Bug) return {error.kind(), message, error.hint()};
  return error;
}

/// Runs `action`. Its errors begin with the work of the GPU: "GPU 0, replicas 0 to 7, step 12: …".
/// Without enough memory, the hint names options that use less.
template <typename Action>
auto with_gpu_errors(const GpuSite& site, const Action& action) {
  try {
    return action();
  } catch (const c10::Error& error) {
    throw gpu_error(site, error);
  } catch (const Error& error) {
    throw gpu_error(site, error);
  }
}

/// The leaves of an instance, among the leaves of all instances.
comm::LeafRange leaves_of(int rank, const std::vector<int>& leaves) {
  const auto own = leaves.begin() + rank;
  return {std::accumulate(leaves.begin(), own, 0), *own};
}

/// Sets how the GPU libraries of this process choose algorithms, because bits depend on it.
void choose_algorithms(bool is_deterministic) {
  auto& libraries = at::globalContext();
  libraries.setBenchmarkCuDNN(!is_deterministic);
  libraries.setDeterministicCuDNN(is_deterministic);
  libraries.setDeterministicAlgorithms(is_deterministic, /*warn_only=*/false);
  libraries.setDeterministicFillUninitializedMemory(false);  // all that is read was written before
  // TF32 would round 32-bit numbers.
  libraries.setAllowTF32CuDNN(false);
  libraries.setAllowTF32CuBLAS(false);
}

gpu::UpdateConstants rules_for(const GpuSetup& setup) {
  if (setup.optimizer.kind() == OptimizerKind::Custom) return {};  // the host updates the weights
  return gpu::update_constants(setup.optimizer, setup.divisor, setup.replicas);
}

}  // namespace

std::unique_ptr<GpuTraining> make_gpu_training(GpuSetup setup, std::unique_ptr<nn::Model> model) {
  gpu::use_device(setup.device);
  choose_algorithms(setup.is_deterministic);
  const auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/true,
                                                   static_cast<c10::DeviceIndex>(setup.device));
  const c10::cuda::CUDAStreamGuard guard(stream);
  return std::make_unique<GpuSteps>(std::move(setup), stream, std::move(model));
}

GpuSteps::GpuSteps(GpuSetup setup, const c10::cuda::CUDAStream& stream,
                   std::unique_ptr<nn::Model> model)
    : setup_(std::move(setup)),
      stream_(stream),
      leaves_(setup_, stream_, std::move(model)),
      download_(leaves_.state(), setup_.home),
      rules_(rules_for(setup_)) {}

GpuSite GpuSteps::site(std::optional<std::int64_t> step) const {
  return {
      .device = setup_.device, .replicas = work_.input.replicas, .step = step, .fuse = work_.fuse};
}

void GpuSteps::prepare(GpuWork work) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  work_ = std::move(work);
  with_gpu_errors(site(), [&] { allocate(); });
}

void GpuSteps::allocate() {
  leaves_.prepare(work_);
  const auto& weights = setup_.weights;
  if (setup_.group) exchange_.emplace(setup_.group, work_.leaves, weights.num_elements);
  leaf_steps_ = exchange_ ? gpu::leaf_steps(leaves_of(setup_.group->rank(), work_.leaves))
                          : gpu::leaf_steps(count_leaves(work_.passes));
  const auto options = at::TensorOptions(stream_.device()).dtype(at::kFloat);
  const auto steps = static_cast<std::size_t>(work_.input.steps);
  const auto parameters = weights.parameters.size();
  rows_ = at::zeros(
      {leaf_steps_.num_rows, exchange_ ? exchange_->row_length() : weights.num_elements}, options);
  changed_ = exchange_ ? at::zeros_like(leaves_.changed()) : leaves_.changed();
  losses_ = at::zeros({work_.input.steps, setup_.replicas}, options);
  metrics_ = at::zeros({work_.input.steps, std::ssize(setup_.task.metrics)}, options);

  std::vector<gpu::Extent> extents;
  for (const auto& parameter : weights.parameters) {
    extents.push_back({parameter.first, parameter.count});
    settings_.push_back(parameter.settings);
  }
  const auto ranges = gpu::chunk_ranges(extents);
  ranges_ = DeviceTable<gpu::ChunkRange>(ranges.size());
  std::ranges::copy(ranges, ranges_.entries().begin());
  ranges_.send(raw_stream());
  const auto chunks = static_cast<std::size_t>(leaves_.parameter_chunks().count);
  measured_ = DeviceTable<gpu::ChunkMeasure>(chunks);
  trust_sums_ = DeviceTable<optimizer::TrustSums>(chunks);
  trust_ = DeviceTable<double>(parameters);
  coefficients_ =
      DeviceTable<gpu::Coefficients>(gpu::num_coefficient_rows(steps, skips()) * parameters);
  controls_ = DeviceTable<gpu::StepControl>(steps);
  host_losses_ = gpu::PinnedMemory(losses_.nbytes());
  host_metrics_ = gpu::PinnedMemory(metrics_.nbytes());
  gpu::wait_for(raw_stream());
}

void GpuSteps::upload(const std::byte* state, const float* frozen) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  leaves_.state().upload(state, frozen);
}

void GpuSteps::refresh(const std::byte* state) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  leaves_.state().refresh(state);
}

void GpuSteps::begin_download(std::byte* state) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  download_.wait();
  download_.begin(state);
}

void GpuSteps::set_loss_scale(double scale, std::int64_t good_steps) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  leaves_.set_loss_scale(scale, good_steps);
}

/// Returns null if the model cannot be recorded.
CapturedWork* GpuSteps::recorded(Work& work, std::size_t passes,
                                 const std::function<void()>& action) {
  if (work != nullptr || !can_be_recorded_) return work.get();
  if (first_ == nullptr) leaves_.warm_up();
  leaves_.begin_recording(passes);
  try {
    work = std::make_unique<CapturedWork>(action, first_);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    can_be_recorded_ = false;
    setup_.tell(fmt::format(
        "the model cannot be recorded for the GPU, so its kernels are launched one by one: {}",
        first_line(error)));
  }
  leaves_.end_recording();
  if (first_ == nullptr) first_ = work.get();
  return work.get();
}

void GpuSteps::run(Work& work, std::size_t passes, const std::function<void()>& action) {
  if (auto* const found = recorded(work, passes, action)) {
    found->launch();
  } else {
    action();
  }
}

void GpuSteps::launch(const GpuLaunch& launch) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  first_launched_ = launch.first_step;
  with_gpu_errors(site(first_launched_), [&] { launch_steps(launch); });
}

void GpuSteps::launch_steps(const GpuLaunch& launch) {
  launched_ = std::ssize(launch.lr_factors);
  const auto rows = gpu::num_coefficient_rows(static_cast<std::size_t>(launched_), skips());
  const auto table = coefficients_.entries().first(rows * settings_.size());
  gpu::fill_coefficients({.optimizer = setup_.optimizer,
                          .settings = settings_,
                          .counts = launch.counts,
                          .lr_factors = launch.lr_factors,
                          .skips = skips()},
                         table);
  coefficients_.send_first(table.size(), raw_stream());
  gpu::begin_launch(leaves_.control(), raw_stream());
  leaves_.set_step(launch.first_step);
  leaves_.input().hand_over();
  run(recorded_launches_[launched_], work_.passes.size() * static_cast<std::size_t>(launched_),
      [&] {
        for (std::int64_t i = 0; i < launched_; ++i) run_step(*this, setup_.step_rules, i);
      });
  controls_.fetch_first(static_cast<std::size_t>(launched_), raw_stream());
  fetch_found();
  done_.record(stream_);
}

void GpuSteps::fetch_found() {
  gpu::copy_to_host(losses_.data_ptr(), host_losses_.data(), host_losses_.bytes(), raw_stream());
  gpu::copy_to_host(metrics_.data_ptr(), host_metrics_.data(), host_metrics_.bytes(), raw_stream());
}

GpuStepResult GpuSteps::result_of(std::size_t step) const {
  const auto replicas = static_cast<std::size_t>(setup_.replicas);
  const auto metrics = setup_.task.metrics.size();
  return {.losses = {host_losses_.as<float>() + step * replicas, replicas},
          .metrics = {host_metrics_.as<float>() + step * metrics, metrics}};
}

std::vector<GpuStepResult> GpuSteps::wait() {
  with_gpu_errors(site(first_launched_), [&] { done_.synchronize(); });
  std::vector<GpuStepResult> records;
  for (std::size_t step = 0; step < static_cast<std::size_t>(launched_); ++step) {
    records.push_back(result_of(step));
    records.back().is_skipped = controls_.entries()[step].skipped != 0;
  }
  return records;
}

void GpuSteps::compute_leaves(std::int64_t index) {
  next_leaf_ = 0;
  leaves_.run(work_.passes, index, found_in(index),
              [&](const gpu::LeafTensor* table) { add_leaf(table); });
}

/// The leaves of this GPU are added while they are computed. This adds the nodes of all GPUs. Then
/// each GPU has the whole sum, and makes the same update.
void GpuSteps::reduce(std::int64_t index) {
  if (!exchange_) return;
  std::vector<float*> nodes;
  for (const int node : leaf_steps_.nodes) nodes.push_back(row(node));
  if (setup_.order == ReductionOrder::Ordered) {
    exchange_->sum_ordered(nodes, row(0), raw_stream());
  } else {
    exchange_->sum_fast(nodes, row(0), raw_stream());
  }
  changed_.copy_(leaves_.changed());
  const auto found = found_in(index);
  for (const auto& numbers : {changed_, found.losses, found.metrics}) {
    if (numbers.numel() == 0) continue;
    setup_.group->all_reduce(numbers.data_ptr<float>(), numbers.numel(), raw_stream());
  }
}

void GpuSteps::add_leaf(const gpu::LeafTensor* table) {
  const auto& leaf = leaf_steps_.steps[next_leaf_++];
  leaves_.gather(table, leaf.combine, row(leaf.row));
  for (const auto& addition : leaf.additions) {
    gpu::add_rows(row(addition.left), row(addition.right), setup_.weights.num_elements,
                  raw_stream());
  }
}

gpu::UpdateCall GpuSteps::update_call() const {
  const auto& shape = setup_.shape;
  const auto states = setup_.optimizer.num_states();
  const auto& on_gpu = leaves_.state();
  auto* const state = on_gpu.data();
  return {.rules = rules_,
          .rows = {.sum = row(0),
                   .weights = shape.weights(state).data(),
                   .first = states > 0 ? shape.kept(state, 0).data() : nullptr,
                   .second = states > 1 ? shape.kept(state, 1).data() : nullptr,
                   .average = setup_.step_rules.averages() ? shape.average(state).data() : nullptr,
                   .half = on_gpu.half().defined() ? on_gpu.half().data_ptr() : nullptr,
                   .half_type = setup_.compute},
          .chunks = leaves_.chunks(),
          .num_parameters = static_cast<std::int32_t>(setup_.weights.parameters.size()),
          .changed = changed_.data_ptr<float>(),
          .coefficients = coefficients_.data(),
          .skips = skips(),
          .trust = trust_.data(),
          .control = leaves_.control()};
}

void GpuSteps::measure_gradients(std::int64_t /*index*/) {
  gpu::measure(row(0), rules_.divisor, leaves_.parameter_chunks(), measured_.data(), raw_stream());
}

/// Without a measurement, the control keeps its initial values: no step is skipped, nothing is
/// clipped.
void GpuSteps::decide(std::int64_t index) {
  if (!setup_.step_rules.measures_gradients()) return;
  gpu::decide({.measured = measured_.data(),
               .num_chunks = leaves_.parameter_chunks().count,
               .losses = losses_.select(0, index).data_ptr<float>(),
               .num_losses = setup_.replicas,
               .rules = setup_.step_rules},
              leaves_.control(), raw_stream());
}

void GpuSteps::measure_trust(std::int64_t /*index*/) {
  const auto call = update_call();
  gpu::measure_trust(call, trust_sums_.data(), raw_stream());
  gpu::find_trust(trust_sums_.data(), ranges_.data(), call.num_parameters, trust_.data(),
                  raw_stream());
}

void GpuSteps::update(std::int64_t /*index*/) {
  gpu::update(update_call(), raw_stream());
  keep_integers();
}

void GpuSteps::commit(std::int64_t /*index*/) {
  gpu::end_step({.changed = changed_.data_ptr<float>(),
                 .counts = setup_.shape.counts(leaves_.state().data()).data(),
                 .num_parameters = static_cast<std::int32_t>(setup_.weights.parameters.size()),
                 .rules = setup_.step_rules,
                 .records = controls_.data()},
                leaves_.control(), raw_stream());
  leaves_.next_step();
}

/// The integer buffers are those of the last replica, because all replicas have the same. A skipped
/// step keeps the old ones.
void GpuSteps::keep_integers() {
  const torch::NoGradGuard no_grad;
  const auto kept = leaves_.state().integers();
  if (kept.numel() == 0) return;
  const auto& found = leaves_.model().integers();
  kept.copy_(has_loss_scaling() ? at::where(leaves_.is_skipped().ne(0), kept, found) : found);
}

std::vector<GpuPass> GpuSteps::passes_of(int replica) const {
  std::vector<GpuPass> passes;
  std::ranges::copy_if(work_.passes, std::back_inserter(passes),
                       [&](const GpuPass& pass) { return pass.first_replica == replica; });
  return passes;
}

GpuStepResult GpuSteps::make_leaf(int replica, std::int64_t step, std::span<float> leaf,
                                  std::span<float> changed) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  auto where = site(step);
  where.replicas = {replica, 1};
  return with_gpu_errors(where, [&] { return run_replica(replica, step, leaf, changed); });
}

GpuStepResult GpuSteps::run_replica(int replica, std::int64_t step, std::span<float> leaf,
                                    std::span<float> changed) {
  if (replica == work_.input.replicas.first) leaves_.input().hand_over();
  leaves_.set_step(step);
  const auto passes = passes_of(replica);
  run(recorded_leaves_[replica], passes.size(), [&] {
    leaves_.run(passes, 0, found_in(0), [&](const gpu::LeafTensor* table) {
      leaves_.gather(table, gpu::Combine::Write, row(0));
    });
  });
  if (host_leaf_.bytes() == 0)
    host_leaf_ = gpu::PinnedMemory(leaf.size_bytes() + changed.size_bytes());
  auto* const numbers = host_leaf_.as<float>();
  gpu::copy_to_host(row(0), numbers, leaf.size_bytes(), raw_stream());
  gpu::copy_to_host(leaves_.changed().data_ptr(), numbers + leaf.size(), changed.size_bytes(),
                    raw_stream());
  fetch_found();
  gpu::wait_for(raw_stream());
  std::memcpy(leaf.data(), numbers, leaf.size_bytes());
  std::memcpy(changed.data(), numbers + leaf.size(), changed.size_bytes());
  return result_of(0);
}

void GpuSteps::copy_integers(std::byte* to) {
  const auto& integers = leaves_.model().integers();
  gpu::copy_to_host(integers.data_ptr(), to, integers.nbytes(), raw_stream());
  gpu::wait_for(raw_stream());
}

void GpuSteps::begin_evaluation(const GpuSamples& samples, WeightsKind weights) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  evaluated_.emplace(samples, setup_.compute);
  evaluated_weights_ = weights;
  auto& model = leaves_.model();
  model.begin_replica();
  if (weights == WeightsKind::Average) model.attach(weights);
  model.model().set_mode(nn::Mode::Evaluate);
}

void GpuSteps::end_evaluation() {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  auto& model = leaves_.model();
  model.model().set_mode(nn::Mode::Train);
  if (evaluated_weights_ == WeightsKind::Average) model.attach(WeightsKind::Trained);
  evaluated_.reset();
}

ReplicaResult GpuSteps::evaluate(const Fields& loaded, const std::string& class_field) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  const auto here =
      loaded.mapped([&](const at::Tensor& tensor) { return tensor.to(stream_.device()); });
  return with_gpu_errors(
      site(), [&] { return leaves_.model().evaluate((*evaluated_)(here), class_field); });
}

at::Tensor GpuSteps::predict(const at::Tensor& input) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  return with_gpu_errors(site(), [&] {
    return leaves_.model().predict(input.to(stream_.device())).to(at::kCPU, at::kFloat);
  });
}

}  // namespace lockstep::train
