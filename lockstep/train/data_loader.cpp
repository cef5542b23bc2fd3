#include "lockstep/train/data_loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/sets/numbered_set.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/gpu/memory.h"

namespace lockstep {
namespace {

const data::Field* find_field(const data::Dataset& set, const std::string& name) {
  const auto& fields = set.fields();
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const data::Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

/// 8-bit pictures have to become something that can be computed with.
std::optional<data::Pipeline> decide_host_pipeline(const Options& options, const data::Dataset& set,
                                                   const DataLoaderOptions& loading) {
  if (loading.pipeline) return loading.pipeline;
  const auto* field = find_field(set, loading.image_field);
  const bool is_picture =
      field != nullptr && field->type == DataType::U8 && field->shape.size() == 3;
  if (!is_picture) return std::nullopt;
  data::PresetOptions preset;
  preset.output.type = input_type(options.precision(), options.half());
  return data::evaluation_pipeline(*field, preset);
}

/// Whatever is stored on a GPU becomes numbers there; 8 bits are for what has to travel.
std::optional<data::Pipeline> decide_pipeline(const Options& options, const data::Dataset& set,
                                              const DataLoaderOptions& loading) {
  auto pipeline = decide_host_pipeline(options, set, loading);
  if (pipeline && options.has_data_on_device()) {
    pipeline->output = {.type = input_type(options.precision(), options.half()),
                        .layout = data::Layout::ChannelsLast};
  }
  return pipeline;
}

std::optional<train::StoredSet> decide_storage(const Options& options, const data::DatasetPtr& set,
                                               const DataLoaderOptions& loading) {
  if (!options.has_data_on_device()) return std::nullopt;
  if (options.device() != DeviceKind::Cuda) {
    throw Error(ErrorKind::Options, "Options::data_on_device: expected a GPU, found device cpu",
                "--device cuda, or leave --data-on-device out");
  }
  return train::StoredSet{.set = set,
                          .image_field = loading.image_field,
                          .pipeline = decide_pipeline(options, *set, loading),
                          .seed = options.seed()};
}

data::DatasetPtr loaded_set(const data::DatasetPtr& set, bool is_stored) {
  if (!is_stored) return set;
  return std::make_shared<data::NumberedSet>(set->size());
}

train::BatchTensors tensors_for(const Options& options, const data::Dataset& set,
                                const DataLoaderOptions& loading) {
  const auto* field = find_field(set, loading.image_field);
  return {loading.image_field, field == nullptr ? data::Field{} : *field,
          decide_pipeline(options, set, loading)};
}

/// A device that is ahead waits for the others as long as instances wait for each other.
std::chrono::duration<double> patience(const topology::Identity& identity) {
  constexpr std::chrono::hours kForEver{24 * 365};
  return identity.stall_timeout.count() > 0 ? identity.stall_timeout
                                            : std::chrono::duration<double>(kForEver);
}

/// Memory from which a GPU copies by itself.
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

/// The same, watched: what is loaded for an evaluation is not.
data::LoaderOptions train_loader_options(const Options& options,
                                         const std::optional<data::Pipeline>& pipeline,
                                         const DataLoaderOptions& loading,
                                         const train::JobLayout& layout, int buffers) {
  auto wanted = loader_options(options, pipeline, loading, buffers);
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
  throw Error(ErrorKind::Options, "DataLoader: expected a data set, found a null pointer");
}

}  // namespace

namespace {

/// What one launch takes is held until the GPU has it, while the next is filled.
int batches_for_gpu(const Options& options, int replicas) {
  const auto steps = std::min(options.device_iterations(), options.steps_at_once());
  const auto at_once = steps * options.gradient_accumulation() * replicas;
  const auto buffers = 2 * at_once + 2;
  if (buffers <= data::kMostBuffers) return static_cast<int>(buffers);
  throw Error(ErrorKind::Options,
              fmt::format("DataLoader: expected at most {} micro-batches in a launch, found {}",
                          data::kMostBuffers / 2 - 1, at_once),
              "a lower --gradient-accumulation, or fewer --device-iterations");
}

}  // namespace

int train::loader_buffers(const Options& options, const JobLayout& layout) {
  return layout.gpu ? batches_for_gpu(options, layout.local.count)
                    : batches_at_once(options, layout.num_first_devices());
}

int train::batches_at_once(const Options& options, int first_devices) {
  const auto in_use = plan::most_in_flight({.schedule = options.pipeline(),
                                            .stages = options.devices_per_replica(),
                                            .micro_batches = options.gradient_accumulation()},
                                           0);
  // Each device holds those that are under way while it asks for another, which is being filled.
  const auto buffers = first_devices * (in_use + 1) + 2;
  if (buffers <= data::kMostBuffers) return static_cast<int>(buffers);
  throw Error(
      ErrorKind::Options,
      fmt::format("DataLoader: expected at most {} micro-batches at the same time, found {} "
                  "with the pipeline schedule {}",
                  data::kMostBuffers, buffers, name_of(options.pipeline())),
      "--pipeline 1f1b, or a lower --gradient-accumulation");
}

DataLoader::DataLoader(const Options& options, data::DatasetPtr set,
                       const DataLoaderOptions& loading)
    : layout_(train::lay_out(options)),
      order_(checked(set).size(), shape_of(options, loading, layout_),
             {.seed = options.seed(), .shuffle = loading.shuffle, .limit = loading.limit}),
      tensors_(tensors_for(options, *set, loading)),
      stored_(decide_storage(options, set, loading)),
      stored_fields_(stored_ ? stored_->fields() : std::vector<data::Field>()),
      buffers_(train::loader_buffers(options, layout_)),
      loader_(loaded_set(set, stored_.has_value()),
              data::micro_batches(order_, layout_.local, layout_.num_first_devices()),
              train_loader_options(options,
                                   stored_ ? std::nullopt : decide_pipeline(options, *set, loading),
                                   loading, layout_, buffers_)),
      batches_per_iteration_(loader_.batches_per_epoch() / order_.iterations_per_epoch()),
      is_shuffled_(loading.shuffle),
      position_(options.loop_position()),
      number_(position_->add_loader()) {
  options.freeze("DataLoader");
}

void DataLoader::go_to(std::int64_t epoch, std::int64_t iteration) {
  if (epoch < 0 || iteration < 0 || iteration >= size()) {
    throw Error(ErrorKind::Options,
                fmt::format("DataLoader::go_to: expected an epoch from 0 on and an iteration of 0 "
                            "to {}, found {} and {}",
                            size() - 1, epoch, iteration));
  }
  position_->take(number_);  // whoever says it later knows better
  next_epoch_ = epoch;
  next_iteration_ = iteration;
}

DataLoader::Iterator DataLoader::begin() {
  if (const auto point = position_->take(number_)) {
    next_epoch_ = point->epoch;
    next_iteration_ = 0;
  }
  return Iterator({this, next_epoch_++, std::exchange(next_iteration_, 0)});
}

data::Loader& DataLoader::micro_batches(const Iteration& iteration, std::int64_t first_step) {
  const auto batches_per_step = batches_per_iteration_ / shape().device_iterations;
  loader_.begin(iteration.epoch,
                iteration.number * batches_per_iteration_ + first_step * batches_per_step);
  return loader_;
}

EvaluationLoader::EvaluationLoader(const Options& options, data::DatasetPtr set,
                                   const DataLoaderOptions& loading)
    : layout_(train::lay_out(options)),
      order_(checked(set).size(), {.batch_size = loading.batch_size,
                                   .replicas = layout_.replicas,
                                   .seed = options.seed(),
                                   .limit = loading.limit}),
      tensors_(tensors_for(options, *set, loading)),
      loader_(set, data::evaluation_batches(order_, layout_.local),
              loader_options(options, decide_pipeline(options, *set, loading), loading,
                             2 * layout_.num_devices + 2)) {
  options.freeze("EvaluationLoader");
}

data::Loader& EvaluationLoader::batches_from_the_first() {
  loader_.begin(0);
  return loader_;
}

}  // namespace lockstep
