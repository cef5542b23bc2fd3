#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/loader/batch.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/train/api/fields.h"

namespace lockstep::train {

/// How a loader gives pictures.
struct PictureFormat {
  std::string field;
  DataType type = DataType::F32;
  data::Layout layout = data::Layout::ChannelsLast;
  std::optional<data::Normalize> normalize{};  ///< that is left to do
};

/// Makes tensors of a batch's fields: what the device does with its input.
///
/// Pictures become f32 [N, channels, height, width], channels last in memory; of 8-bit ones x/255
/// is taken and normalized here, with the bits that the loader would have given. All else refers to
/// the batch's memory, so the batch is kept as long as its tensors. The lengths of a varying field
/// "tokens" are the field "tokens.length". Any number of threads.
class BatchTensors {
 public:
  /// `pipeline` is what the loader does with the field `image`.
  BatchTensors(std::string image, const data::Field& stored,
               const std::optional<data::Pipeline>& pipeline);

  Fields operator()(const data::Batch& batch) const;

  /// The same before anything is done with pictures: all refers to the batch's memory.
  static Fields as_loaded(const data::Batch& batch);
  /// What is to be done with them; nothing where there are none that a pipeline made.
  const std::optional<PictureFormat>& picture_format() const noexcept { return format_; }

  /// Fields of the shapes and types that a batch of a loader with these fields would give: random
  /// where they are numbers between 0 and 1, zeros where they are whole.
  Fields example(const std::vector<data::Field>& fields, std::int64_t samples) const;

 private:
  at::Tensor picture(const at::Tensor& values) const;
  at::Tensor normalized(const at::Tensor& pixels) const;

  bool is_picture(const std::string& field) const { return format_ && format_->field == field; }

  std::optional<PictureFormat> format_;
  std::vector<std::array<float, 256>> tables_;  ///< what each 8-bit value becomes, by channel
};

}  // namespace lockstep::train
