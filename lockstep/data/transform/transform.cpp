#include "lockstep/data/transform/transform.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/transform/decisions.h"
#include "lockstep/data/transform/pipeline_check.h"
#include "lockstep/data/transform/resizing.h"
#include "lockstep/data/transform/row_kernels.h"

namespace lockstep::data {
namespace {

const Normalize* normalize_of(const Pipeline& pipeline) {
  for (const auto& step : pipeline.steps) {
    if (const auto* normalize = std::get_if<Normalize>(&step)) return normalize;
  }
  return nullptr;
}

float divide_corrected(float x, float divisor, float reciprocal) {
  const auto quotient = x * reciprocal;
  const auto rest = std::fma(-quotient, divisor, x);
  return std::fma(rest, reciprocal, quotient);
}

/// Whether every pixel of a channel gets the same bits with and without division.
bool is_exact(float mean, float deviation) {
  const auto reciprocal = 1.0F / deviation;
  for (int x = 0; x < 256; ++x) {
    const auto pixel = static_cast<float>(x);
    const auto share = divide_corrected(pixel, 255.0F, 1.0F / 255.0F);
    const auto value = divide_corrected(share - mean, deviation, reciprocal);
    const auto expected = (pixel / 255.0F - mean) / deviation;
    if (std::memcmp(&value, &expected, sizeof(value)) != 0) return false;
  }
  return true;
}

kernels::Division division_for(const Normalize* normalize) {
  bool is_exact_for_all = normalize != nullptr || is_exact(0.0F, 1.0F);
  for (std::size_t c = 0; normalize != nullptr && c < normalize->mean.size(); ++c) {
    is_exact_for_all = is_exact_for_all && is_exact(normalize->mean[c], normalize->deviation[c]);
  }
  return is_exact_for_all ? kernels::Division::Correct : kernels::Division::Divide;
}

kernels::Conversion make_conversion(const Pipeline& pipeline, std::int64_t channels) {
  kernels::Conversion conversion{
      .format = pipeline.output, .mean = {}, .deviation = {}, .reciprocal = {}};
  if (pipeline.output.type == DataType::U8) return conversion;
  constexpr auto kWidest = kernels::Conversion::kWidest;
  const auto* normalize = normalize_of(pipeline);
  const bool is_first = pipeline.output.layout == Layout::ChannelsFirst;
  conversion.division = division_for(normalize);
  for (std::int64_t i = 0; i < (is_first ? kWidest * channels : kWidest + channels); ++i) {
    const auto c = static_cast<std::size_t>(is_first ? i / kWidest : i % channels);
    const auto mean = normalize == nullptr ? 0.0F : normalize->mean[c];
    const auto deviation = normalize == nullptr ? 1.0F : normalize->deviation[c];
    conversion.mean.push_back(mean);
    conversion.deviation.push_back(deviation);
    conversion.reciprocal.push_back(1.0F / deviation);
  }
  return conversion;
}

std::vector<std::uint8_t> make_erased(const Pipeline& pipeline, std::int64_t channels) {
  std::vector<std::uint8_t> pixel(static_cast<std::size_t>(channels), 0);
  const auto* normalize = normalize_of(pipeline);
  if (pipeline.output.type != DataType::U8 || normalize == nullptr) return pixel;
  for (std::size_t c = 0; c < pixel.size(); ++c) {
    const auto level = std::round(std::fmin(std::fmax(normalize->mean[c], 0.0F), 1.0F) * 255.0F);
    pixel[c] = static_cast<std::uint8_t>(level);
  }
  return pixel;
}

/// A picture on its way through the steps.
class Progress {
 public:
  Progress(const ImageView& in, Scratch& scratch)
      : image_(in), window_(Window::over(in.size)), scratch_(scratch) {}

  void take(const Step& step, const StepDecision& decision) {
    if (!decision.applies) return;
    if (std::holds_alternative<RandomHorizontalFlip>(step)) {
      window_.flip();
    } else if (std::holds_alternative<RandomCrop>(step) ||
               std::holds_alternative<CenterCrop>(step)) {
      window_.crop(decision.box);
    } else if (std::holds_alternative<RandomResizedCrop>(step)) {
      window_.crop(decision.box);
      resize(decision.size);
    } else if (std::holds_alternative<Resize>(step) ||
               std::holds_alternative<ResizeShorter>(step)) {
      resize(decision.size);
    }
  }

  void finish(const kernels::Conversion& conversion, std::byte* out) {
    const bool is_as_it_is =
        conversion.format.type == DataType::U8 && window_.is_plain() &&
        (conversion.format.layout == Layout::ChannelsLast || image_.channels == 1);
    if (pending_ && is_as_it_is) {
      data::resize(image_, *pending_, window_.visible, scratch_, Scratch::Use::Resized,
                   reinterpret_cast<std::uint8_t*>(out));
      return;
    }
    run_pending();
    kernels::convert_window(window_, image_, conversion, row_memory(conversion.format), out);
  }

 private:
  void resize(ImageSize size) {
    if (size == window_.size) return;
    run_pending();
    pending_ = PendingResize{window_, size};
    window_ = Window::over(size);
  }

  void run_pending() {
    if (!pending_) return;
    if (!window_.is_empty()) {
      // A resize never writes where it reads.
      const bool is_again = std::exchange(is_resized_, !is_resized_);
      image_ = data::resize(image_, *pending_, window_.visible, scratch_,
                            is_again ? Scratch::Use::ResizedAgain : Scratch::Use::Resized);
    }
    window_.visible.top = 0;
    window_.visible.left = 0;
    pending_.reset();
  }

  kernels::RowMemory row_memory(const OutputFormat& format) {
    const bool is_first = format.layout == Layout::ChannelsFirst && image_.channels > 1;
    kernels::RowMemory memory;
    if (format.type == DataType::U8 && !is_first) return memory;
    const auto count = kernels::rows_at_a_time(window_.size, image_.channels) * window_.size.width *
                       image_.channels;
    memory.rows = scratch_.bytes(Scratch::Use::Rows, count);
    // Bytes are split, and f32 is computed, where they are to be.
    if (is_first && format.type != DataType::U8) {
      memory.channels = scratch_.bytes(Scratch::Use::Channels, count);
    }
    if (format.type == DataType::F16 || format.type == DataType::BF16) {
      const auto float_bytes = count * static_cast<std::int64_t>(sizeof(float));
      void* const floats = scratch_.bytes(Scratch::Use::Floats, float_bytes);
      memory.floats = static_cast<float*>(floats);
    }
    return memory;
  }

  ImageView image_;
  Window window_;
  std::optional<PendingResize> pending_;
  bool is_resized_ = false;
  Scratch& scratch_;
};

/// Erases a box of the output, if it is one, whose pixels get the bytes `pixel` where they are u8
/// and 0 else.
void erase(const Box& box, ImageSize size, OutputFormat format,
           const std::vector<std::uint8_t>& pixel, std::byte* out) {
  if (box.size.height == 0) return;
  const auto channels = static_cast<std::int64_t>(pixel.size());
  const bool is_first = format.layout == Layout::ChannelsFirst;
  const auto element = static_cast<std::int64_t>(size_of(format.type));
  const auto column_step = is_first ? 1 : channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto value = format.type == DataType::U8 ? pixel[static_cast<std::size_t>(c)] : 0;
    for (std::int64_t y = box.top; y < box.top + box.size.height; ++y) {
      const auto row =
          is_first ? (c * size.height + y) * size.width : y * size.width * channels + c;
      for (std::int64_t x = box.left; x < box.left + box.size.width; ++x) {
        std::memset(out + (row + x * column_step) * element, value,
                    static_cast<std::size_t>(element));
      }
    }
  }
}

}  // namespace

Transform::Transform(const Pipeline& pipeline, const Field& image)
    : pipeline_(pipeline),
      image_(image),
      output_size_(check_pipeline(pipeline, image)),
      conversion_(
          std::make_shared<const kernels::Conversion>(make_conversion(pipeline, image.shape[2]))),
      erased_(make_erased(pipeline, image.shape[2])) {
  const auto* normalize = normalize_of(pipeline);
  if (pipeline.output.type == DataType::U8 && normalize != nullptr) left_to_device_ = *normalize;
}

Field Transform::output_field() const {
  const auto channels = image_.shape[2];
  Field field{
      image_.name, pipeline_.output.type, {output_size_.height, output_size_.width, channels}};
  if (pipeline_.output.layout == Layout::ChannelsFirst) {
    field.shape = {channels, output_size_.height, output_size_.width};
  }
  return field;
}

void Transform::check(const ImageView& in) const {
  const bool is_any = image_.kind == FieldKind::AnySizeImage;
  const bool has_size = is_any ? in.size.height > 0 && in.size.width > 0
                               : in.size == ImageSize{image_.shape[0], image_.shape[1]};
  if (has_size && in.channels == image_.shape[2]) return;
  throw Error(ErrorKind::Options,
              fmt::format("transform: expected a picture of {}, found {}x{} with {} channels",
                          describe(image_), in.size.height, in.size.width, in.channels));
}

void Transform::apply(const ImageView& in, const Draws& draws, Scratch& scratch,
                      std::byte* out) const {
  check(in);
  Progress progress(in, scratch);
  auto size = in.size;
  Box erased;
  for (std::size_t i = 0; i < pipeline_.steps.size(); ++i) {
    const auto& step = pipeline_.steps[i];
    const auto decision = decide_step(step, i, size, draws);
    progress.take(step, decision);
    size = decision.size;
    if (std::holds_alternative<RandomErasing>(step) && decision.applies) erased = decision.box;
  }
  progress.finish(*conversion_, out);
  erase(erased, output_size_, pipeline_.output, erased_, out);
}

}  // namespace lockstep::data
