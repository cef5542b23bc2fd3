#include "lockstep/data/transform/presets.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

bool has_any_size(const Field& image) {
  return image.kind == FieldKind::AnySizeImage;
}

bool has_size(const PresetOptions& options) {
  return options.size != ImageSize{};
}

void check_size(const Field& image, const PresetOptions& options) {
  if (!has_any_size(image) || has_size(options)) return;
  throw Error(ErrorKind::Options,
              fmt::format("transform: expected a size for {}, found none", describe(image)),
              "pass --image-size 224x224");
}

ImageSize size_of_field(const Field& image) {
  return image.shape.size() == 3 ? ImageSize{image.shape[0], image.shape[1]} : ImageSize{};
}

void add_center(ImageSize size, Pipeline& pipeline) {
  pipeline.steps.emplace_back(ResizeShorter{std::max(size.height, size.width) * 256 / 224});
  pipeline.steps.emplace_back(CenterCrop{size.height, size.width});
}

void add_crop(const Field& image, const PresetOptions& options, Pipeline& pipeline) {
  if (has_any_size(image)) {
    pipeline.steps.emplace_back(
        RandomResizedCrop{.height = options.size.height, .width = options.size.width});
    return;
  }
  const auto size = size_of_field(image);
  pipeline.steps.emplace_back(
      RandomCrop{size.height, size.width, std::min(size.height, size.width) / 8});
}

/// What all presets end with.
void add_end(const Field& image, const PresetOptions& options, Pipeline& pipeline) {
  if (!has_any_size(image) && has_size(options) && options.size != size_of_field(image)) {
    pipeline.steps.emplace_back(Resize{options.size.height, options.size.width});
  }
  if (options.normalize) pipeline.steps.emplace_back(*options.normalize);
  pipeline.output = options.output;
}

}  // namespace

std::string_view name_of(Augment augment) noexcept {
  switch (augment) {
    case Augment::None:
      return "none";
    case Augment::Flip:
      return "flip";
    case Augment::Standard:
      return "standard";
  }
  return "?";
}

Augment parse_augment(std::string_view text) {
  for (const auto augment : {Augment::None, Augment::Flip, Augment::Standard}) {
    if (text == name_of(augment)) return augment;
  }
  throw Error(ErrorKind::Options,
              fmt::format("augment: expected none, flip or standard, found '{}'", text));
}

Pipeline training_pipeline(Augment augment, const Field& image, const PresetOptions& options) {
  check_size(image, options);
  Pipeline pipeline;
  if (augment == Augment::Standard) {
    add_crop(image, options, pipeline);
  } else if (has_any_size(image)) {
    add_center(options.size, pipeline);
  }
  if (augment != Augment::None) pipeline.steps.emplace_back(RandomHorizontalFlip{});
  add_end(image, options, pipeline);
  return pipeline;
}

Pipeline evaluation_pipeline(const Field& image, const PresetOptions& options) {
  return training_pipeline(Augment::None, image, options);
}

Pipeline tutorial_pipeline() {
  return {{RandomHorizontalFlip{}, Resize{64, 64}}, {DataType::U8, Layout::ChannelsLast}};
}

Normalize imagenet_normalize() {
  return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
}

Normalize cifar10_normalize() {
  return {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
}

Normalize cifar100_normalize() {
  return {{0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}};
}

Normalize mnist_normalize() {
  return {{0.1307F}, {0.3081F}};
}

Normalize fashion_mnist_normalize() {
  return {{0.2860F}, {0.3530F}};
}

}  // namespace lockstep::data
