#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/loader/batch.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/train/api/task.h"

namespace lockstep::train {

/// The format of the images of a loader.
struct PictureFormat {
  std::string field;
  DataType type = DataType::F32;
  data::Layout layout = data::Layout::ChannelsLast;
  std::optional<data::Normalize> normalize{};  ///< not done by the loader
};

/// A dataset that is stored in the memory of a GPU, and the pipeline that makes samples there. The
/// samples have the same bits as those of a loader. The loader provides only their indices.
struct StoredSet {
  data::DatasetPtr set;
  std::string image_field;
  std::optional<data::Pipeline> pipeline{};  ///< for images; makes numbers, channels last
  std::uint64_t seed = 0;                    ///< of random decisions

  /// The position of the image field, if there is a pipeline.
  std::optional<std::size_t> picture() const;
  /// The fields of the samples. Errors: `Options` if a GPU cannot make them.
  std::vector<data::Field> fields() const;
};

/// Makes tensors from the fields of a batch: the part of the input pipeline that the device
/// computes.
///
/// Images become f32 [N, channels, height, width], channels last in memory. 8-bit images are
/// divided by 255 and normalized here, with the bits that the loader would compute. All other
/// tensors refer to the memory of the batch, so the batch must outlive its tensors. The lengths of
/// a varying field "tokens" are the field "tokens.length". Any thread may call a member.
class BatchTensors {
 public:
  /// `pipeline` is applied to the field `image` by the loader.
  BatchTensors(std::string image, const data::Field& stored,
               const std::optional<data::Pipeline>& pipeline);

  Fields operator()(const data::Batch& batch) const;

  /// Returns the fields as the loader has filled them. All refer to the memory of the batch.
  static Fields as_loaded(const data::Batch& batch);
  /// Empty if no pipeline makes images.
  const std::optional<PictureFormat>& picture_format() const noexcept { return format_; }

  /// Returns fields with the shapes and types of a batch with these fields. Floating-point fields
  /// are random numbers from 0 to 1, and integer fields are zero.
  Fields example(const std::vector<data::Field>& fields, std::int64_t samples) const;

 private:
  at::Tensor picture(const at::Tensor& values) const;
  at::Tensor normalized(const at::Tensor& pixels) const;

  bool is_picture(const std::string& field) const { return format_ && format_->field == field; }

  std::optional<PictureFormat> format_;
  std::vector<std::array<float, 256>> tables_;  ///< by channel: the result for each 8-bit value
};

}  // namespace lockstep::train
