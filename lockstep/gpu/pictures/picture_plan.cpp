#include "lockstep/gpu/pictures/picture_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "lockstep/base/error.h"
#include "lockstep/data/transform/decisions.h"
#include "lockstep/data/transform/pipeline_check.h"

namespace lockstep::gpu {
namespace {

/// Widened rows take this much of a multiprocessor's shared memory where they can, so that it has
/// several blocks to turn to; and so much, which every GPU gives, where one row of the result needs
/// it.
constexpr std::int64_t kWideBytes = 16 << 10;
constexpr std::int64_t kMostWideBytes = 40 << 10;
/// A picture of at most this size is read to shared memory at once.
constexpr std::int64_t kStagedBytes = 8 << 10;
/// Numbers that a block makes where nothing else limits it.
constexpr std::int64_t kBlockNumbers = 16 << 10;

data::Field checked(const data::Field& image) {
  if (image.kind == data::FieldKind::Fixed) return image;
  throw Error(ErrorKind::Options,
              fmt::format("data on the device: expected pictures of one size, found {}",
                          data::describe(image)),
              "leave --data-on-device out");
}

/// Kernels count the bytes of a picture in 32 bits.
void check_size(data::ImageSize size, std::int64_t channels) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 2;
  const bool is_small = size.width <= kMost && size.height <= kMost / size.width &&
                        channels <= kMost / (size.width * size.height);
  if (is_small) return;
  throw Error(ErrorKind::Options,
              fmt::format("data on the device: expected pictures of at most {} bytes, found {}x{} "
                          "with {} channels",
                          kMost, size.height, size.width, channels),
              "leave --data-on-device out");
}

std::int32_t narrowed(std::int64_t value) {
  return static_cast<std::int32_t>(value);
}

PassWindow packed(const data::Window& window) noexcept {
  PassWindow packed;
  packed.width = narrowed(window.size.width);
  if (window.is_empty()) return packed;
  packed.from_top = narrowed(window.visible.top);
  packed.from_left = narrowed(window.visible.left);
  packed.shown_height = narrowed(window.visible.size.height);
  packed.shown_width = narrowed(window.visible.size.width);
  packed.top = narrowed(window.top);
  packed.left = narrowed(window.left);
  packed.flipped = window.flipped ? 1 : 0;
  return packed;
}

void set_erased(const data::Box& box, PicturePass& pass) noexcept {
  pass.erased_top = narrowed(box.top);
  pass.erased_left = narrowed(box.left);
  pass.erased_height = narrowed(box.size.height);
  pass.erased_width = narrowed(box.size.width);
}

std::optional<data::Normalize> normalize_of(const data::Pipeline& pipeline) {
  for (const auto& step : pipeline.steps) {
    if (const auto* normalize = std::get_if<data::Normalize>(&step)) return *normalize;
  }
  return std::nullopt;
}

}  // namespace

PicturePlanner::PicturePlanner(const data::Pipeline& pipeline, const data::Field& image)
    : pipeline_(pipeline),
      image_(checked(image)),
      output_size_(data::check_pipeline(pipeline, image)) {
  source_size_ = {image.shape[0], image.shape[1]};
  numbers_ = level_numbers(normalize_of(pipeline), image.shape[2]);
  check_size(source_size_, image.shape[2]);
  check_size(output_size_, image.shape[2]);
  for (std::size_t i = 0; i < pipeline.steps.size(); ++i) add_step(pipeline.steps[i], i);
  add_shapes();
}

data::Field PicturePlanner::output_field() const {
  return {image_.name,
          pipeline_.output.type,
          {output_size_.height, output_size_.width, image_.shape[2]}};
}

void PicturePlanner::add_step(const data::Step& step, std::size_t place) {
  const auto before = steps_.empty() ? source_size_ : steps_.back().after;
  // Sizes are the same whatever is drawn.
  const auto after = data::decide_step(step, place, before, {}).size;
  PlannedStep planned{.step = step, .place = place, .before = before, .after = after};
  if (std::holds_alternative<data::Normalize>(step)) return;
  if (std::holds_alternative<data::RandomHorizontalFlip>(step)) {
    planned.action = Action::Flip;
  } else if (std::holds_alternative<data::RandomErasing>(step)) {
    planned.action = Action::Erase;
  } else if (std::holds_alternative<data::RandomCrop>(step) ||
             std::holds_alternative<data::CenterCrop>(step)) {
    planned.action = Action::Crop;
  } else {
    const bool crops = std::holds_alternative<data::RandomResizedCrop>(step);
    if (!crops && before == after) return;
    planned.action = crops ? Action::CropAndResize : Action::Resize;
    add_tables(planned);
  }
  steps_.push_back(std::move(planned));
}

void PicturePlanner::add_tables(PlannedStep& step) {
  check_size(step.after, image_.shape[2]);
  const auto add = [&](std::int64_t before, std::int64_t after) {
    return step.action == Action::Resize ? std::vector{tables_.add(before, after)}
                                         : tables_.add_all(before, after);
  };
  step.rows = add(step.before.width, step.after.width);
  step.columns = add(step.before.height, step.after.height);
}

void PicturePlanner::add_shapes() {
  auto source = source_size_;
  const PlannedStep* resize = nullptr;
  for (const auto& step : steps_) {
    if (step.rows.empty()) continue;
    if (resize != nullptr) {
      shapes_.push_back(shape_of(source, resize->after, resize));
      source = resize->after;
    }
    resize = &step;
  }
  shapes_.push_back(shape_of(source, output_size_, resize));
}

PassShape PicturePlanner::shape_of(data::ImageSize source, data::ImageSize out,
                                   const PlannedStep* resize) const {
  const auto channels = image_.shape[2];
  const auto row = out.width * channels;
  PassShape shape{.source_stride = aligned_stride(source.height * source.width * channels),
                  .source_row_bytes = narrowed(source.width * channels),
                  .height = narrowed(out.height),
                  .width = narrowed(out.width),
                  .channels = narrowed(channels)};
  shape.band_rows = narrowed(std::clamp<std::int64_t>(kBlockNumbers / row, 1, out.height));
  if (resize == nullptr) return shape;
  const auto stride = aligned_stride(row);
  const auto rows_for = [&](std::int64_t band) {
    std::int64_t most = 0;
    for (const auto table : resize->columns) {
      most = std::max(most, tables_.reach(table, resize->after.height, band));
    }
    return most;
  };
  shape.resizing = Resizing::Direct;
  if (rows_for(1) > kMostWideBytes / stride) return shape;
  std::int64_t band = 1;
  for (auto step = std::int64_t{1} << 30; step > 0; step /= 2) {
    if (band + step > out.height || rows_for(band + step) > kWideBytes / stride) continue;
    band += step;
  }
  shape.resizing = Resizing::Wide;
  shape.band_rows = narrowed(band);
  shape.wide_rows = narrowed(rows_for(band));
  shape.wide_stride = narrowed(stride);
  const bool is_staged = shape.bands() == 1 && shape.source_stride <= kStagedBytes &&
                         shape.shared_bytes() <= kWideBytes;
  shape.staged_bytes = is_staged ? narrowed(shape.source_stride) : 0;
  return shape;
}

void PicturePlanner::plan(std::span<const std::int64_t> samples, std::uint64_t seed,
                          std::int64_t epoch, std::span<PicturePass> out) const {
  if (out.size() < plan_size(samples.size())) {
    throw Error(ErrorKind::Bug, fmt::format("picture plan: expected room for {} passes, found {}",
                                            plan_size(samples.size()), out.size()));
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const data::Draws draws{.seed = seed,
                            .epoch = static_cast<std::uint32_t>(epoch),
                            .sample = static_cast<std::uint64_t>(samples[i])};
    plan_sample(draws, i, samples.size(), out);
  }
}

void PicturePlanner::plan_sample(const data::Draws& draws, std::size_t place, std::size_t samples,
                                 std::span<PicturePass> out) const {
  auto window = data::Window::over(source_size_);
  auto* pass = &out[place];
  *pass = {};
  pass->source = static_cast<std::int64_t>(draws.sample);
  bool has_resized = false;
  for (const auto& step : steps_) {
    const auto decision = data::decide_step(step.step, step.place, step.before, draws);
    if (!decision.applies) continue;
    if (step.action == Action::Flip) window.flip();
    if (step.action == Action::Crop || step.action == Action::CropAndResize) {
      window.crop(decision.box);
    }
    if (step.action == Action::Erase) set_erased(decision.box, *pass);
    if (step.rows.empty()) continue;
    if (has_resized) {
      pass += samples;
      *pass = {};
      pass->source = static_cast<std::int64_t>(place);
    }
    has_resized = true;
    resize(step, window, *pass);
  }
  pass->after = packed(window);
}

void PicturePlanner::resize(const PlannedStep& step, data::Window& window,
                            PicturePass& pass) const noexcept {
  const bool crops = step.action == Action::CropAndResize;
  pass.before = packed(window);
  pass.rows = step.rows[crops ? static_cast<std::size_t>(window.size.width) : 0];
  pass.columns = step.columns[crops ? static_cast<std::size_t>(window.size.height) : 0];
  window = data::Window::over(step.after);
  pass.after = packed(window);
}

}  // namespace lockstep::gpu
