#include "lockstep/train/api/data_loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/sampling/sample_order.h"
#include "lockstep/data/sets/numbered_set.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/gpu/memory.h"
#include "lockstep/train/backends/batch_tensors.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/train/recovery/loop_position.h"

namespace lockstep {
namespace {

/// An empty field if the set has no images.
data::Field find_image(const data::Dataset& set, const DataLoaderOptions& loading) {
  const auto found = std::ranges::find(set.fields(), loading.image_field, &data::Field::name);
  return found == set.fields().end() ? data::Field{} : *found;
}

/// 8-bit images must become numbers. Images that are stored on a GPU become numbers there.
std::optional<data::Pipeline> decide_pipeline(const Options& options, const data::Dataset& set,
                                              const DataLoaderOptions& loading) {
  const auto input = input_type(options.precision(), options.half());
  const auto image = find_image(set, loading);
  auto pipeline = loading.pipeline;
  if (!pipeline && image.type == DataType::U8 && image.shape.size() == 3) {
    data::PresetOptions preset;
    preset.output.type = input;
    pipeline = data::evaluation_pipeline(image, preset);
  }
  if (pipeline && options.has_data_on_device()) {
    pipeline->output = {.type = input, .layout = data::Layout::ChannelsLast};
  }
  return pipeline;
}

std::optional<train::StoredSet> decide_storage(const Options& options, const data::DatasetPtr& set,
                                               const DataLoaderOptions& loading,
                                               const std::optional<data::Pipeline>& pipeline) {
  if (!options.has_data_on_device()) return std::nullopt;
  if (options.device() != DeviceKind::Cuda) {
    throw Error(ErrorKind::Options, "Options::data_on_device: expected a GPU, found device cpu",
                "--device cuda, or leave --data-on-device out");
  }
  return train::StoredSet{
      .set = set, .image_field = loading.image_field, .pipeline = pipeline, .seed = options.seed()};
}

data::DatasetPtr loaded_set(const data::DatasetPtr& set, bool is_stored) {
  if (!is_stored) return set;
  return std::make_shared<data::NumberedSet>(set->size());
}

/// A device waits for other devices as long as instances wait for each other.
std::chrono::duration<double> patience(const topology::Identity& identity) {
  constexpr std::chrono::hours kForEver{24 * 365};
  return identity.stall_timeout.count() > 0 ? identity.stall_timeout
                                            : std::chrono::duration<double>(kForEver);
}

/// Memory from which a GPU copies without the help of a CPU.
std::shared_ptr<std::byte> pin(std::size_t bytes) {
  auto memory = std::make_shared<gpu::PinnedMemory>(bytes);
  return {memory, memory->data()};
}

data::LoaderOptions loader_options(const Options& options,
                                   const std::optional<data::Pipeline>& pipeline,
                                   const DataLoaderOptions& loading, int buffers) {
  data::LoaderOptions wanted{.mode = loading.mode,
                             .workers = loading.workers,
                             .buffers = buffers,
                             .patience = patience(options.world().identity()),
                             .pipeline = pipeline,
                             .image_field = loading.image_field};
  if (options.device() == DeviceKind::Cuda) wanted.allocate = pin;
  return wanted;
}

/// Also records the spans of the loader. Those of an evaluation are not recorded.
data::LoaderOptions train_loader_options(data::LoaderOptions wanted, const Options& options,
                                         const train::JobLayout& layout) {
  wanted.spans = options.watchers().spans;
  wanted.batches_per_step = options.gradient_accumulation() * layout.local.count;
  return wanted;
}

data::BatchShape shape_of(const Options& options, const DataLoaderOptions& loading,
                          const train::JobLayout& layout) {
  return {.batch_size = loading.batch_size,
          .gradient_accumulation = options.gradient_accumulation(),
          .device_iterations = options.device_iterations(),
          .replicas = layout.replicas};
}

const data::Dataset& checked(const data::DatasetPtr& set) {
  if (set) return *set;
  throw Error(ErrorKind::Options, "DataLoader: expected a dataset, found a null pointer");
}

}  // namespace

struct DataLoader::State {
  State(const Options& options, const data::DatasetPtr& set, const DataLoaderOptions& loading)
      : layout(train::lay_out(options)),
        order(checked(set).size(), shape_of(options, loading, layout),
              {.seed = options.seed(), .shuffle = loading.shuffle, .limit = loading.limit}),
        pipeline(decide_pipeline(options, *set, loading)),
        tensors(loading.image_field, find_image(*set, loading), pipeline),
        stored(decide_storage(options, set, loading, pipeline)),
        stored_fields(stored ? stored->fields() : std::vector<data::Field>()),
        buffers(train::loader_buffers(options, layout)),
        loader(loaded_set(set, stored.has_value()),
               data::micro_batches(order, layout.local, layout.num_first_devices()),
               train_loader_options(
                   loader_options(options, stored ? std::nullopt : pipeline, loading, buffers),
                   options, layout)),
        batches_per_iteration(loader.batches_per_epoch() / order.iterations_per_epoch()),
        is_shuffled(loading.shuffle),
        position(options.loop_position()),
        number(position->add_loader()) {}

  train::JobLayout layout;
  data::TrainOrder order;
  std::optional<data::Pipeline> pipeline;
  train::BatchTensors tensors;
  std::optional<train::StoredSet> stored;
  std::vector<data::Field> stored_fields;
  int buffers;
  data::Loader loader;
  std::int64_t batches_per_iteration;
  bool is_shuffled;
  std::shared_ptr<train::LoopPosition> position;
  int number;
  std::int64_t next_epoch = 0;
  std::int64_t next_iteration = 0;
};

DataLoader::DataLoader(const Options& options, data::DatasetPtr set,
                       const DataLoaderOptions& loading)
    : state_(std::make_unique<State>(options, set, loading)) {
  options.freeze("DataLoader");
}

DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;
DataLoader::~DataLoader() = default;

std::int64_t DataLoader::size() const noexcept {
  return state_->order.iterations_per_epoch();
}
std::int64_t DataLoader::steps_per_epoch() const noexcept {
  return state_->order.steps_per_epoch();
}
const data::BatchShape& DataLoader::shape() const noexcept {
  return state_->order.shape();
}
std::int64_t DataLoader::samples() const noexcept {
  return state_->order.samples();
}
bool DataLoader::is_shuffled() const noexcept {
  return state_->is_shuffled;
}

const train::JobLayout& DataLoader::layout() const noexcept {
  return state_->layout;
}
const train::BatchTensors& DataLoader::tensors() const noexcept {
  return state_->tensors;
}
const std::optional<train::StoredSet>& DataLoader::stored() const noexcept {
  return state_->stored;
}
const std::vector<data::Field>& DataLoader::fields() const noexcept {
  return state_->stored ? state_->stored_fields : state_->loader.fields();
}
int DataLoader::workers() const noexcept {
  return state_->loader.workers();
}
int DataLoader::buffers() const noexcept {
  return state_->buffers;
}
int DataLoader::number() const noexcept {
  return state_->number;
}

void DataLoader::go_to(std::int64_t epoch, std::int64_t iteration) {
  if (epoch < 0 || iteration < 0 || iteration >= size()) {
    throw Error(ErrorKind::Options,
                fmt::format("DataLoader::go_to: expected an epoch from 0 on and an iteration of 0 "
                            "to {}, found {} and {}",
                            size() - 1, epoch, iteration));
  }
  state_->position->take(state_->number);  // the call overrides the position of an earlier run
  state_->next_epoch = epoch;
  state_->next_iteration = iteration;
}

DataLoader::Iterator DataLoader::begin() {
  if (const auto point = state_->position->take(state_->number)) {
    state_->next_epoch = point->epoch;
    state_->next_iteration = 0;
  }
  return Iterator({this, state_->next_epoch++, std::exchange(state_->next_iteration, 0)});
}

data::Loader& DataLoader::micro_batches(const Iteration& iteration, std::int64_t first_step) {
  const auto batches_per_step = state_->batches_per_iteration / shape().device_iterations;
  state_->loader.begin(iteration.epoch, iteration.number * state_->batches_per_iteration +
                                            first_step * batches_per_step);
  return state_->loader;
}

struct EvaluationLoader::State {
  State(const Options& options, const data::DatasetPtr& set, const DataLoaderOptions& loading)
      : layout(train::lay_out(options)),
        order(checked(set).size(), {.batch_size = loading.batch_size,
                                    .replicas = layout.replicas,
                                    .seed = options.seed(),
                                    .limit = loading.limit}),
        pipeline(decide_pipeline(options, *set, loading)),
        tensors(loading.image_field, find_image(*set, loading), pipeline),
        loader(set, data::evaluation_batches(order, layout.local),
               loader_options(options, pipeline, loading, 2 * layout.num_devices + 2)) {}

  train::JobLayout layout;
  data::EvaluationOrder order;
  std::optional<data::Pipeline> pipeline;
  train::BatchTensors tensors;
  data::Loader loader;
};

EvaluationLoader::EvaluationLoader(const Options& options, data::DatasetPtr set,
                                   const DataLoaderOptions& loading)
    : state_(std::make_unique<State>(options, set, loading)) {
  options.freeze("EvaluationLoader");
}

EvaluationLoader::EvaluationLoader(EvaluationLoader&&) noexcept = default;
EvaluationLoader& EvaluationLoader::operator=(EvaluationLoader&&) noexcept = default;
EvaluationLoader::~EvaluationLoader() = default;

std::int64_t EvaluationLoader::batches() const noexcept {
  return state_->order.batches();
}
std::int64_t EvaluationLoader::local_batches() const noexcept {
  return state_->loader.batches_per_epoch();
}
std::int64_t EvaluationLoader::samples() const noexcept {
  return state_->order.samples();
}
std::int64_t EvaluationLoader::size_of(std::int64_t batch) const noexcept {
  return state_->order.size_of(batch);
}

const std::vector<data::Field>& EvaluationLoader::fields() const noexcept {
  return state_->loader.fields();
}
const train::BatchTensors& EvaluationLoader::tensors() const noexcept {
  return state_->tensors;
}

data::Loader& EvaluationLoader::batches_from_the_first() {
  state_->loader.begin(0);
  return state_->loader;
}

}  // namespace lockstep
