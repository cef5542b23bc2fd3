#include "lockstep/train/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <cmath>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/nn/block_sharing.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/train/matching_options.h"

namespace lockstep::train {
namespace {

std::vector<nn::Slot> slots_of(const nn::Model& model) {
  return nn::slots_of(model.tensors());
}

/// Hashes of what has to be the same on every instance.
struct Agreement {
  std::int64_t model;
  std::int64_t options;
  std::int64_t optimizer;
};

std::int64_t hash_of(const std::vector<nn::Slot>& slots) {
  Fnv hash;
  for (const auto& slot : slots) {
    for (const auto& name : slot.names) hash.add(name).add(0);
    hash.add(static_cast<std::uint64_t>(slot.tensor().scalar_type()));
    hash.add(slot.tensor().requires_grad() ? 1 : 0);
    for (const auto extent : slot.tensor().sizes()) hash.add(static_cast<std::uint64_t>(extent));
  }
  return static_cast<std::int64_t>(hash.value());
}

std::int64_t hash_of(const Options& options) {
  const auto& schedule = options.schedule();
  Fnv hash;
  hash.add(fmt::format("{} {} {} {} {} {}", options.gradient_accumulation(),
                       options.device_iterations(), options.seed(), options.loss_scale(),
                       name_of(options.reduction()), name_of(options.precision())));
  hash.add(fmt::format("{} {} {} {} {} {} {}", name_of(options.half()), options.epochs(),
                       name_of(schedule.kind), schedule.warmup_epochs, schedule.step_epochs,
                       schedule.step_factor, schedule.final_factor));
  return static_cast<std::int64_t>(hash.value());
}

std::int64_t hash_of(const Optimizer& optimizer, const WeightLayout& weights) {
  Fnv hash;
  const auto& adam = optimizer.adam();
  hash.add(fmt::format("{} {} {} {} {} {}", optimizer.name(), optimizer.sgd().momentum,
                       optimizer.sgd().nesterov, adam.beta1, adam.beta2, adam.epsilon));
  hash.add(fmt::format("{} {}", optimizer.clip_norm().value_or(0),
                       optimizer.average_decay().value_or(0)));
  for (const auto& parameter : weights.parameters) {
    hash.add(fmt::format("{} {}", parameter.settings.lr, parameter.settings.weight_decay));
  }
  return static_cast<std::int64_t>(hash.value());
}

/// Throws on every instance where they were not started alike.
void check_agreement(comm::Communicator& communicator, const EngineSetup& setup,
                     const WeightLayout& weights) {
  constexpr std::int64_t kWidth = sizeof(Agreement) / sizeof(std::int64_t);
  const Agreement mine{hash_of(slots_of(*setup.model)), hash_of(setup.options),
                       hash_of(setup.optimizer, weights)};
  std::vector<Agreement> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather({&mine, kWidth, DataType::I64, "agreement"},
                          {all.data(), kWidth * communicator.size(), DataType::I64, "agreement"});
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto check = [&](std::int64_t Agreement::*part, const char* what) {
      if (all[rank].*part == all.front().*part) return;
      throw Error(ErrorKind::Options,
                  fmt::format("TrainingModel: expected the same {} on every instance, found "
                              "another on instance {} than on instance 0",
                              what, communicator.instances()[rank]),
                  "let nothing of it depend on the instance, the time or the machine");
    };
    check(&Agreement::model, "model");
    check(&Agreement::options, "options");
    check(&Agreement::optimizer, "optimizer");
  }
}

/// What an earlier attempt has left is of use only for the same model, trained in the same way.
comm::ShardedUpdate::Shape fingerprinted(comm::ShardedUpdate::Shape shape, const EngineSetup& setup,
                                         const WeightLayout& weights) {
  Fnv print;
  for (const auto hash : {hash_of(slots_of(*setup.model)), hash_of(setup.options),
                          hash_of(setup.optimizer, weights), std::int64_t{setup.layout.replicas}}) {
    print.add(static_cast<std::uint64_t>(hash));
  }
  shape.fingerprint = print.value();
  return shape;
}

UpdateRules rules_of(const EngineSetup& setup) {
  const auto micro_batches = setup.options.gradient_accumulation() * setup.layout.replicas;
  return {.optimizer = setup.optimizer,
          .replicas = setup.layout.replicas,
          .divisor = setup.options.reduction() == Reduction::Mean ? micro_batches : 1,
          .has_loss_scaling =
              setup.options.precision() == Precision::P16_16 && setup.options.half() == Half::F16};
}

/// Says that a version is copied; or, where it never comes to that, that nobody has to wait for it.
/// (A future would do the same through std::call_once, of which a program that brings a libstdc++
/// of its own beside that of libtorch has two.)
class CopyMark {
 public:
  explicit CopyMark(std::shared_ptr<std::atomic<bool>> is_copied)
      : is_copied_(std::move(is_copied)) {}
  ~CopyMark() { set(); }
  CopyMark(const CopyMark&) = delete;
  CopyMark& operator=(const CopyMark&) = delete;

  void set() noexcept {
    is_copied_->store(true);
    is_copied_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> is_copied_;
};

EngineSetup checked(EngineSetup setup) {
  if (setup.task.metrics.size() > kMostMetrics) {
    throw Error(ErrorKind::Options, fmt::format("Task: expected at most {} metrics, found {}",
                                                kMostMetrics, setup.task.metrics.size()));
  }
  return setup;
}

}  // namespace

Engine::Engine(EngineSetup setup)
    : setup_(checked(std::move(setup))),
      communicator_(setup_.options.world().communicator()),
      watched_(communicator_, setup_.options.watchers().status),
      weights_(lay_out_weights(slots_of(*setup_.model), setup_.optimizer)),
      shape_(weights_, setup_.optimizer.num_states(), setup_.optimizer.average_decay().has_value()),
      common_(weights_),
      totals_(weights_, setup_.layout.replicas, setup_.task.metrics.size()),
      update_(rules_of(setup_), weights_, shape_, totals_),
      updates_((check_agreement(communicator_, setup_, weights_), communicator_),
               fingerprinted(update_shape(weights_, shape_, totals_, setup_.layout.local.count),
                             setup_, weights_),
               "weights"),
      threads_(setup_.layout.num_devices,
               [threads = setup_.layout.threads_per_device] { nn::use_compute_threads(threads); }) {
  begin_recording();
  make_replicas();
  if (!is_recovered()) write_first_state();
  attach_all();
  send_to_gpu();
}

void Engine::begin_recording() {
  const auto& watchers = setup_.options.watchers();
  spans_ = watchers.track("update");
  for (int device = 0; device < threads_.count(); ++device) {
    device_spans_.push_back(watchers.track(fmt::format("device {}", device)));
  }
}

/// Whoever handed the model over keeps it, with the weights that it has now.
Engine::~Engine() {
  const auto* state = updates_.state();
  try {
    if (resident_) state = download();
  } catch (const std::exception&) {  // who handed the model over has what was last brought home
  }
  original_->attach(shape_.weights(state).data(), state);
  original_->detach();
}

/// All replicas are clones: the model that was handed over may be tied in ways, and hold gradients,
/// that a clone does not, and no replica may differ from another.
void Engine::make_replicas() {
  const auto& local = setup_.layout.gpu ? topology::ReplicaRange{} : setup_.layout.local;
  if (setup_.layout.gpu) make_gpu(setup_.model->clone());
  replicas_.reserve(static_cast<std::size_t>(local.count));
  for (int i = 0; i < local.count; ++i) {
    replicas_.emplace_back(local.first + i, setup_.model->clone(), weights_, shape_);
    replicas_.back().prepare_to_learn();
  }
  original_.emplace(-1, std::move(setup_.model), weights_, shape_);
  tensors_.emplace(weights_, shape_, original_->slots(), setup_.optimizer);
}

/// Which blocks share a parameter, and must not be cut apart, is asked of the model itself: bits
/// depend on it.
void Engine::spread(const plan::StageSplit& split, const DataLoader& loader,
                    std::int64_t kept_bytes) {
  if (gpu_) return prepare_gpu(loader, kept_bytes);
  PipelineSettings settings{.shape = {.schedule = setup_.options.pipeline(),
                                      .stages = layout().stages,
                                      .micro_batches = setup_.options.gradient_accumulation()},
                            .recompute = setup_.options.recompute(),
                            .split = split};
  const auto blocks = nn::list_blocks(original_->model());
  for (int block = 0; block < std::ssize(blocks.blocks); ++block) {
    settings.may_be_cut.push_back(plan::may_begin_stage(blocks, block));
  }
  pipelines_.reserve(replicas_.size());
  for (auto& replica : replicas_) {
    replica.cut(split);
    pipelines_.emplace_back(replica.model(), setup_.task, settings);
  }
  flow_.emplace(plan::FlowShape{.schedule = settings.shape.schedule,
                                .micro_batches = settings.shape.micro_batches,
                                .device_of = layout().device_of,
                                .side_by_side = layout().num_first_devices(),
                                .most_batches = loader.buffers()});
  const bool overlaps = setup_.options.overlap() == Overlap::On && layout().stages == 1;
  if (overlaps && !updates_.early_buckets().empty()) {
    early_ = std::make_unique<EarlyLeaf>(replicas_.back(), updates_, weights_, totals_);
  }
}

void Engine::with_replica(const std::function<void(nn::Model&)>& measure) {
  guarded([&] {
    threads_.run([&](int device) {
      if (device == 0) measure(gpu_ ? original_->model() : replicas_.front().model());
    });
  });
}

/// The weights of instance 0 are everybody's.
void Engine::write_first_state(std::int64_t loads, std::int64_t steps_before_load) {
  const auto& slots = original_->slots();
  updates_.initialize([&](std::byte* state) {
    const torch::NoGradGuard no_grad;
    write_frozen();
    std::memset(state, 0, shape_.bytes());
    auto* all = shape_.weights(state).data();
    for (const auto& parameter : weights_.parameters) {
      view_of(parameter, all).copy_(slots[parameter.slot].tensor());
    }
    for (const auto& buffer : weights_.buffers) {
      view_of(buffer, all).copy_(slots[buffer.slot].tensor());
    }
    original_->copy_integers(shape_.integers(state));
    if (setup_.optimizer.average_decay()) {
      std::memcpy(shape_.average(state).data(), all, shape_.weights(state).size_bytes());
    }
    shape_.progress(state) = {.loss_scale = has_loss_scaling() ? setup_.options.loss_scale() : 1,
                              .loads = loads,
                              .steps_before_load = steps_before_load};
  });
}

/// What is not learned is there once for the host, too. It is written before the version that it
/// belongs to is committed: a crash between the two repeats both.
void Engine::write_frozen() const {
  for (const auto& parameter : weights_.frozen) {
    view_of(parameter, frozen()).copy_(original_->slots()[parameter.slot].tensor());
  }
}

void Engine::attach_all() {
  const auto attach = [&](Replica& replica) {
    replica.attach(weights(Which::Weights, updates_.state()), updates_.state());
    if (!weights_.frozen.empty()) replica.attach_frozen(frozen());
  };
  for (auto& replica : replicas_) attach(replica);
  attach(*original_);
}

void Engine::restore(const checkpoint::Checkpoint* from) {
  guarded([&] {
    communicator_.barrier("restore");  // nobody reads what was before
    updates_.initialize([&](std::byte* state) {
      const auto loop = tensors_->read(*from, state, frozen());
      keep_finished_epochs(loop.finished_epochs);
      keep_loader_print(train::loader_print(from->manifest().options));
    });
    attach_all();
    send_to_gpu();
  });
}

std::int64_t Engine::finished_epochs() const noexcept {
  return kept_numbers().finished_epochs.load();
}

/// What is kept says so only when the epoch's last step is kept too.
void Engine::finish_epoch(std::int64_t epoch) {
  bring_home();
  keep_finished_epochs(epoch);
}

void Engine::keep_finished_epochs(std::int64_t epochs) noexcept {
  if (communicator_.is_leader()) kept_numbers().finished_epochs.store(epochs);
}

std::uint64_t Engine::loader_print() const noexcept {
  return kept_numbers().loader_print.load();
}

void Engine::keep_loader_print(std::uint64_t print) noexcept {
  if (communicator_.is_leader()) kept_numbers().loader_print.store(print);
}

void Engine::request(Request request) noexcept {
  requests_[static_cast<std::size_t>(request)].store(true);
}

/// With the last leaf: one that comes later goes with the next step. A wish to stop stays; whoever
/// takes checkpoints needs to tell nobody that it wants one.
void Engine::write_requests(std::span<float> leaf) {
  const auto to = totals_.requests(leaf.last(totals_.count()));
  std::ranges::fill(to, 0.0F);
  if (updates_.is_at_last_leaf()) write_requests_into(to);
}

void Engine::write_requests_into(std::span<float> to) {
  const auto index = [](Request request) { return static_cast<std::size_t>(request); };
  to[index(Request::Stop)] = requests_[index(Request::Stop)].load() ? 1 : 0;
  if (communicator_.rank() == 0) return;
  to[index(Request::Checkpoint)] = requests_[index(Request::Checkpoint)].exchange(false) ? 1 : 0;
}

bool Engine::is_wanted(Request request) const {
  const auto index = static_cast<std::size_t>(request);
  if (resident_) return resident_requests_[index] > 0;
  return totals_.requests(updates_.totals())[index] > 0;
}

/// A signal that all instances get is one wish: here it is heeded at once, and comes from others
/// with the next step.
bool Engine::take_checkpoint_request() noexcept {
  const auto step = progress().steps;
  const bool is_own = requests_[static_cast<std::size_t>(Request::Checkpoint)].exchange(false);
  if (is_own) last_own_request_ = step;
  return is_own || (is_wanted(Request::Checkpoint) && step > last_own_request_ + 1);
}

/// The state, for one instance that looks at it while others may not. Where those have it on their
/// GPUs too, and all of them would have to bring it home, it is this one's own.
const std::byte* Engine::state_to_look_at() {
  if (!resident_ || communicator_.size() == 1) {
    bring_home();
    return updates_.state();
  }
  if (is_copied_) is_copied_->wait(false);
  return download();
}

std::function<checkpoint::Content(Snapshot&)> Engine::begin_copy() {
  const auto* const from = state_to_look_at();
  is_copied_ = std::make_shared<std::atomic<bool>>(false);
  copied_version_ = updates_.version();
  return [this, mark = std::make_shared<CopyMark>(is_copied_), state = from,
          loop = LoopState{finished_epochs()}](Snapshot& to) {
    to.clear(tensors_->copy_bytes());
    checkpoint::Content content{.manifest = {},
                                .weights = tensors_->copy_weights(state, frozen(), to),
                                .state = tensors_->copy_state(state, loop, to)};
    mark->set();
    return content;
  };
}

/// The next version is written where the one before the current stands. All instances wait, since
/// none of them writes before this one has handed in its leaves.
void Engine::wait_for_copy() {
  if (!is_copied_ || updates_.version() == copied_version_) return;
  Stopwatch watch;
  is_copied_->wait(false);
  is_copied_.reset();
  waited_for_copies_ += watch.lap();
}

DataType Engine::leaf_type() const noexcept {
  return gradient_type(setup_.options.precision(), setup_.options.half());
}
bool Engine::has_loss_scaling() const noexcept {
  return leaf_type() == DataType::F16;
}

const float* Engine::weights(Which which, const std::byte* state) const {
  if (which == Which::Weights) return shape_.weights(state).data();
  if (setup_.optimizer.average_decay()) return shape_.average(state).data();
  throw Error(ErrorKind::Options, "TrainingModel: no average of the weights is kept",
              "AdamW({...}).average_weights(0.999)");
}

MemoryUse Engine::memory() const noexcept {
  const auto bytes = [](std::int64_t floats) {
    return floats * static_cast<std::int64_t>(sizeof(float));
  };
  const auto kept = setup_.optimizer.num_states() + (setup_.optimizer.average_decay() ? 1 : 0);
  return {.weights = bytes(weights_.num_elements + weights_.num_frozen),
          .optimizer = bytes(weights_.num_parameters * kept),
          .shared = static_cast<std::int64_t>(updates_.memory_bytes())};
}

void Engine::with_model(Which which, const std::function<void(nn::Model&)>& look) {
  guarded([&] {
    const auto* const state = state_to_look_at();
    original_->attach(weights(which, state), state);
    look(original_->model());
  });
}

void Engine::set_model(const std::function<void(nn::Model&)>& change, std::int64_t loads) {
  guarded([&] {
    bring_home();
    const auto made = progress().steps_before_load + progress().steps;
    original_->attach(weights(Which::Weights, updates_.state()), updates_.state());
    original_->detach();
    change(original_->model());
    communicator_.barrier("set weights");  // nobody reads the old ones any more
    write_first_state(loads, made);
    attach_all();
    send_to_gpu();
  });
}

void Engine::guarded(const std::function<void()>& action) {
  try {
    nn::with_torch_errors("train", action);
  } catch (const Error& error) {
    communicator_.report_failure(error);
    throw;
  } catch (const std::exception& error) {
    communicator_.report_failure(
        Error(ErrorKind::PeerLost, fmt::format("train: {}", error.what())));
    throw;
  }
}

}  // namespace lockstep::train
