#include "lockstep/train/jobs/train_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/sets/set_names.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/nn/open_model.h"
#include "lockstep/train/jobs/train_job.h"

namespace lockstep::train {
namespace {

const data::Field& picture_field(const data::Dataset& set) {
  return set.fields()[data::position_of("image", set.fields())];
}

/// The statistics of the set if they are known; those of ImageNet for other color images.
std::optional<data::Normalize> normalize_for(const std::string& dataset, std::int64_t channels) {
  if (channels == 1 && dataset == "fashion-mnist") return data::fashion_mnist_normalize();
  if (channels == 1 && dataset == "mnist") return data::mnist_normalize();
  if (channels == 3 && dataset == "cifar10") return data::cifar10_normalize();
  if (channels == 3 && dataset == "cifar100") return data::cifar100_normalize();
  if (channels == 3) return data::imagenet_normalize();
  return std::nullopt;
}

DataType picture_type(const TrainRequest& request) {
  return request.eight_bit_io ? DataType::U8 : input_type(request.precision, request.half);
}

DataLoaderOptions loading(const TrainRequest& request) {
  return {
      .batch_size = request.batch_size, .mode = request.loader_mode, .workers = request.workers};
}

data::PresetOptions preset_for(const TrainRequest& request, const data::Field& picture) {
  return {
      .size = request.image_size.value_or(data::ImageSize{}),
      .normalize = normalize_for(
          request.normalize_as.empty() ? request.dataset : request.normalize_as, picture.shape[2]),
      .output = {.type = picture_type(request)}};
}

/// The request for a model of the images and classes of a set.
nn::ModelRequest model_request(const TrainRequest& request, const data::Dataset& set) {
  auto model = request.model;
  const auto& shape = picture_field(set).shape;
  const auto size = request.image_size.value_or(data::ImageSize{shape[0], shape[1]});
  if (size.height == 0 || size.width == 0) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected pictures of one size, and those of this set differ",
                            request.command),
                "--image-size 224x224");
  }
  model.height = size.height;
  model.width = size.width;
  model.channels = shape[2];
  if (!set.class_names().empty()) model.classes = std::ssize(set.class_names());
  model.seed = request.seed;
  return model;
}

void check_classes(const TrainRequest& request, std::int64_t classes, const data::Dataset& set) {
  const auto wanted = std::ssize(set.class_names());
  if (wanted == 0 || classes == wanted) return;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected a model of {} classes for this set, found one of {}",
                          request.command, wanted, classes),
              "export the model with as many outputs as the set has classes");
}

/// Adds the options that must be equal when a training is resumed.
void name_subject(const TrainRequest& request, Options& options) {
  const auto or_all = [](const auto& limit) {
    return limit ? fmt::format("{}", *limit) : std::string("all");
  };
  options.must_match("model", request.model.model)
      .must_match("dataset", request.dataset)
      .must_match("image-size",
                  request.image_size
                      ? fmt::format("{}x{}", request.image_size->height, request.image_size->width)
                      : "as stored")
      .must_match("augment", std::string(data::name_of(request.augment)))
      .must_match("limit-train", or_all(request.limit_train))
      .must_match("eight-bit-io", request.eight_bit_io ? "yes" : "no")
      .must_match("label-smoothing", fmt::format("{}", request.label_smoothing));
  if (request.dataset != data::kSyntheticSet) return;
  const auto& synthetic = request.set.synthetic;
  options.must_match("classes", fmt::format("{}", synthetic.classes))
      .must_match("data-seed", fmt::format("{}", synthetic.seed));
}

}  // namespace

DeviceKind device_of(const TrainRequest& request) {
  if (request.device) return *request.device;
  return gpu::count_devices() > 0 ? DeviceKind::Cuda : DeviceKind::Cpu;
}

Options options_of(const TrainRequest& request) {
  Options options;
  options.device(device_of(request)).fuse(request.fuse).snapshot_every(request.snapshot_every);
  options.gpu_transport(request.gpu_transport);
  if (request.deterministic) options.deterministic();
  if (request.data_on_device) options.data_on_device();
  // A launch must end where a digest is written.
  if (request.digest_every > 0) {
    options.steps_at_once(std::gcd(request.digest_every, request.device_iterations));
  }
  if (request.replicas) options.replicas(*request.replicas);
  if (request.threads_per_device) options.threads_per_device(*request.threads_per_device);
  if (request.devices_per_replica) options.devices_per_replica(*request.devices_per_replica);
  for (const auto& block : request.split) options.begin_stage(block);
  if (!request.cache_path.empty()) options.cache(request.cache_path);
  options.gradient_accumulation(request.gradient_accumulation)
      .device_iterations(request.device_iterations)
      .pipeline(request.pipeline)
      .recompute(request.recompute)
      .overlap(request.overlap)
      .reduction(request.reduction)
      .reduction_order(request.order)
      .precision(request.precision, request.half)
      .schedule(request.schedule, std::max<std::int64_t>(1, request.epochs))
      .seed(request.seed);
  if (!request.checkpoint_dir.empty()) {
    options.checkpoints({.folder = request.checkpoint_dir,
                         .every = request.checkpoint_every,
                         .keep_last = request.checkpoint_keep});
  }
  if (request.resume) options.resume(*request.resume);
  name_subject(request, options);
  return options;
}

std::optional<std::string> test_set_name(const std::string& dataset) {
  if (!dataset.ends_with(".pack")) return dataset;
  std::filesystem::path path(dataset);
  auto name = path.filename().string();
  const auto at = name.rfind("train");
  if (at == std::string::npos) return std::nullopt;
  name.replace(at, 5, "test");
  path.replace_filename(name);
  return std::filesystem::exists(path) ? std::optional(path.string()) : std::nullopt;
}

DataLoader train_loader(const TrainRequest& request, const Options& options,
                        const data::DatasetPtr& set) {
  auto wanted = loading(request);
  wanted.shuffle = true;
  wanted.limit = request.limit_train;
  const auto& picture = picture_field(*set);
  wanted.pipeline = data::training_pipeline(request.augment, picture, preset_for(request, picture));
  return {options, set, wanted};
}

EvaluationLoader test_loader(const TrainRequest& request, const Options& options,
                             const data::DatasetPtr& set) {
  auto wanted = loading(request);
  wanted.limit = request.limit_test;
  const auto& picture = picture_field(*set);
  wanted.pipeline = data::evaluation_pipeline(picture, preset_for(request, picture));
  return {options, set, wanted};
}

std::unique_ptr<nn::Model> open_model(const TrainRequest& request, const data::Dataset& set) {
  auto opened = nn::open_model(model_request(request, set));
  check_classes(request, opened.classes, set);
  return std::move(opened.model);
}

Task task_of(const TrainRequest& request) {
  return {.loss = cross_entropy("label", request.label_smoothing),
          .test_loss = cross_entropy("label")};
}

}  // namespace lockstep::train
