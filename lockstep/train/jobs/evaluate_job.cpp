#include "lockstep/train/jobs/evaluate_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/find_checkpoint.h"
#include "lockstep/data/sets/subset.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/nn/model_weights.h"
#include "lockstep/train/api/training_model.h"
#include "lockstep/train/jobs/train_job.h"
#include "lockstep/train/jobs/train_setup.h"

namespace lockstep::train {
namespace {

constexpr std::string_view kAveragePrefix = "average.";

/// Cores that a launcher has given to this instance; without one, all that the process may use.
int cores_of_instance(const topology::Identity& identity) {
  if (identity.threads_per_device) {
    const std::set<int> devices(identity.device_ids.begin(), identity.device_ids.end());
    return static_cast<int>(std::ssize(devices)) * *identity.threads_per_device;
  }
  return std::max(1, launch::discover_machine().usable_cores() / identity.num_local_instances);
}

int count_replicas(const World& world, const TrainRequest& request, int devices) {
  if (!request.replicas) return devices;
  const topology::JobShape shape{.replicas = *request.replicas, .instances = world.num_instances()};
  if (shape.replicas < shape.instances) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: {} instances need a replica each, but --replicas is {}",
                            request.command, shape.instances, shape.replicas),
                fmt::format("raise --replicas to {}, or leave it out", shape.instances));
  }
  return topology::replicas_of(world.instance(), shape).count;
}

/// The identity of this instance with one replica for each T cores. The number of threads that a
/// launcher has set depends on the number of instances, and the bits of a result on the threads.
topology::Identity divide_cores(const World& world, const TrainRequest& request,
                                DeviceKind device) {
  auto identity = world.identity();
  const int threads = request.threads_per_device.value_or(1);
  const int devices =
      device == DeviceKind::Cpu ? std::max(1, cores_of_instance(identity) / threads) : 1;
  const int replicas = count_replicas(world, request, devices);
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.num_instances()));
  const std::int64_t mine = replicas;
  world.all_gather({&mine, 1, DataType::I64, "replicas"},
                   {all.data(), std::ssize(all), DataType::I64, "replicas"});
  const auto before = std::span(all).first(static_cast<std::size_t>(world.instance()));
  const auto sum = [](std::span<const std::int64_t> counts) {
    return static_cast<int>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  };
  identity.num_replicas = sum(all);
  identity.local_replicas = {sum(before), replicas};
  identity.devices_per_replica = 1;
  identity.device_ids.clear();
  for (int i = 0; i < replicas; ++i) identity.device_ids.push_back(i % devices);
  identity.threads_per_device = threads;
  return identity;
}

bool has_average(const checkpoint::Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.state().tensors(), [](const weights::TensorView& tensor) {
    return tensor.name.starts_with(kAveragePrefix);
  });
}

/// Whether the average of the weights is meant. Throws `Options` if there is none.
bool decide_average(const checkpoint::Checkpoint& checkpoint, CheckpointWeights wanted) {
  if (wanted == CheckpointWeights::Trained) return false;
  if (has_average(checkpoint)) return true;
  if (wanted == CheckpointWeights::Auto) return false;
  throw Error(ErrorKind::Options,
              fmt::format("eval: --weights average: expected a checkpoint with an average of the "
                          "weights, found none in {}",
                          checkpoint.path().string()),
              "--weights trained; a training keeps an average with --ema-decay");
}

/// The weights of a checkpoint with the averages in the place of trained parameters.
weights::TensorSet averaged_weights(const checkpoint::Checkpoint& checkpoint) {
  auto set = checkpoint.weights().set();
  for (const auto& average : checkpoint.state().tensors()) {
    if (!average.name.starts_with(kAveragePrefix)) continue;
    const auto name = average.name.substr(kAveragePrefix.size());
    const auto* const trained = set.find(name);
    if (trained == nullptr || trained->type != average.type || trained->shape != average.shape) {
      throw Error(ErrorKind::Data,
                  fmt::format("{}: expected an average for a parameter of the model, found '{}'",
                              checkpoint.state().path().string(), average.name),
                  "--weights trained");
    }
    set.tensors[static_cast<std::size_t>(trained - set.tensors.data())].bytes = average.bytes;
  }
  return set;
}

/// One evaluation, from its dataset to its summary.
class EvaluationJob {
 public:
  EvaluationJob(const TrainRequest& request, const EvaluationRequest& evaluation,
                Callback& callback, const WatchFunction& watch)
      : request_(request),
        evaluation_(evaluation),
        callback_(callback),
        watch_(watch),
        world_(World::init()) {}

  EvaluationSummary run() {
    report("connecting to the other instances");
    decide_options();
    try {
      prepare();
      evaluate();
    } catch (const Error& error) {
      world_.communicator().report_failure(error);
      throw;
    }
    return std::move(summary_);
  }

 private:
  static constexpr int kPreparations = 4;

  bool is_first() const { return world_.instance() == 0; }

  void report(const char* what) {
    if (is_first()) callback_.on_preparing({what, prepared_, kPreparations});
    ++prepared_;
  }

  void notify(const std::string& text) {
    if (is_first()) callback_.on_notice(text);
  }

  void prepare() {
    open_weights();
    report("reading the dataset");
    const auto set = open_dataset();
    loader_.emplace(test_loader(request_, *options_, set));
    report("creating the network");
    auto model = open_model(request_, *set);
    load_checkpoint(*model);
    report("sharing the weights");
    model_.emplace(std::move(model), *options_, SGD({.momentum = 0}), task_of(request_));
    model_->tell([this](const std::string& text) { notify(text); });
    model_->compile();
    warn_of_limits();
    summary_.class_names = set->class_names();
  }

  void warn_of_limits() {
    if (request_.precision == Precision::P32_32 || options_->device() != DeviceKind::Cpu) return;
    notify(fmt::format("this CPU computes in 32 bits: {} applies to the input",
                       name_of(request_.half)));
  }

  /// Instance 0 reads the checkpoint. The others get the weights from instance 0.
  void open_weights() {
    if (evaluation_.checkpoint.empty() || !is_first()) return;
    checkpoint_ = checkpoint::open_checkpoint(
        "eval: --checkpoint", evaluation_.checkpoint,
        [this](const std::filesystem::path& path, const std::string& why) {
          notify(
              fmt::format("{} is damaged, so an older checkpoint is used: {}", path.string(), why));
        });
  }

  void decide_options() {
    const auto device = device_of(request_);
    const auto identity = divide_cores(world_, request_, device);
    options_.emplace(World(identity, world_.communicator()));
    options_->device(device)
        .precision(request_.precision, request_.half)
        .seed(request_.seed)
        .deterministic();  // a GPU library must not choose algorithms by measurement
    watchers_ = watch_(identity);
    watchers_.enter(events::Phase::Preparing);
    options_->watch(watchers_);
    if (world_.launched()) return;
    options_->replicas(identity.num_replicas).threads_per_device(*identity.threads_per_device);
  }

  data::DatasetPtr open_dataset() {
    auto name = request_.dataset;
    const bool is_pack = name.ends_with(".pack");
    if (is_pack && evaluation_.has_set_of_training && evaluation_.split == data::Split::Test) {
      const auto test = test_set_name(name);
      if (!test) {
        throw Error(ErrorKind::Data,
                    fmt::format("eval: expected a pack with the test split beside {}, which the "
                                "checkpoint was trained with, found none",
                                name),
                    "--dataset with the path of a pack, or --split train");
      }
      name = *test;
    }
    summary_.dataset = name;
    if (!is_pack) summary_.split = data::name_of(evaluation_.split);
    auto set = data::open_set(name, evaluation_.split, request_.set);
    check_samples(*set);
    if (!evaluation_.samples) return set;
    summary_.samples = evaluation_.samples;
    return data::subset(std::move(set), *evaluation_.samples);
  }

  /// Throws `Options` if the dataset has fewer samples than `--samples` or `--limit` requests.
  void check_samples(const data::Dataset& set) const {
    const auto size = set.size();
    if (size == 0) return;  // the loader refuses an empty dataset
    const auto& range = evaluation_.samples;
    if (range && range->end > size) {
      throw Error(ErrorKind::Options,
                  fmt::format("eval: --samples: expected a range within 0:{}, found {}:{}", size,
                              range->first, range->end),
                  fmt::format("--samples 0:{}", size));
    }
    const auto& limit = request_.limit_test;
    if (limit && *limit > size) {
      throw Error(ErrorKind::Options,
                  fmt::format("eval: --limit: expected 1 to {} samples, found {}", size, *limit),
                  fmt::format("--limit {}", size));
    }
  }

  void load_checkpoint(nn::Model& model) {
    if (!checkpoint_) return;
    const bool is_average = decide_average(*checkpoint_, evaluation_.weights);
    const auto where = checkpoint_->weights().path().string();
    nn::load_weights(
        model, is_average ? averaged_weights(*checkpoint_) : checkpoint_->weights().set(), where);
    summary_.checkpoint = {.path = checkpoint_->path().string(),
                           .step = checkpoint_->manifest().position.step,
                           .is_average = is_average};
  }

  void evaluate() {
    if (is_first()) callback_.on_validation_begin(0, loader_->local_batches());
    Stopwatch watch;
    auto& result = summary_.result;
    result = model_->evaluate_classes(*loader_, "label", WeightsKind::Trained,
                                      [this](std::int64_t done) {
                                        if (is_first()) callback_.on_validation_batch(done);
                                      });
    summary_.seconds = watch.lap();
    if (is_first()) callback_.on_validated(0, {.loss = result.loss, .metrics = result.metrics});
    watchers_.enter(events::Phase::Finishing);
    summary_.model = request_.model.model;
    summary_.init_from = request_.model.init_from;
    summary_.weights = model_->digest();
    summary_.batch_size = request_.batch_size;
    summary_.precision = name_of(request_.precision);
    summary_.threads_per_device = model_->threads_per_device();
    summary_.instances = world_.num_instances();
    summary_.replicas = model_->replicas();
  }

  const TrainRequest& request_;
  const EvaluationRequest& evaluation_;
  Callback& callback_;
  const WatchFunction& watch_;
  events::Watchers watchers_;
  World world_;  ///< outlives the options, which use its communicator
  std::optional<checkpoint::Checkpoint> checkpoint_;  ///< on instance 0
  std::optional<Options> options_;
  std::optional<EvaluationLoader> loader_;
  std::optional<TrainingModel> model_;
  EvaluationSummary summary_;
  int prepared_ = 0;
};

}  // namespace

EvaluationSummary run_evaluation(const TrainRequest& request, const EvaluationRequest& evaluation,
                                 Callback& callback, const WatchFunction& watch) {
  return EvaluationJob(request, evaluation, callback, watch).run();
}

}  // namespace lockstep::train
