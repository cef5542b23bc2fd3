#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/field.h"
#include "lockstep/data/image.h"
#include "lockstep/data/sampling/draws.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/data/transform/window.h"
#include "lockstep/gpu/pictures/level_numbers.h"
#include "lockstep/gpu/pictures/picture_pass.h"
#include "lockstep/gpu/pictures/resize_tables.h"

namespace lockstep::gpu {

/// Decides, for pictures of one size, what a GPU is to do with each: the random decisions are
/// `data::decide_step`'s, so the pictures get the bits that a `data::Transform` gives them. What is
/// made lies channels-last in memory, whatever layout the pipeline names.
///
/// Since all pictures have one size, random crops come in few sizes, and the weights of all their
/// resizes are made here, once.
///
/// `plan` allocates nothing and may be called by several threads at once.
///
/// Errors: `Options` from the constructor where the pipeline cannot be meant for these pictures, or
/// they cannot be worked on by a GPU.
class PicturePlanner {
 public:
  PicturePlanner(const data::Pipeline& pipeline, const data::Field& image);

  /// What is made of a picture.
  data::Field output_field() const;
  /// What is the same for all pictures, pass by pass.
  const std::vector<PassShape>& shapes() const noexcept { return shapes_; }
  const ResizeTables& tables() const noexcept { return tables_; }
  const LevelNumbers& numbers() const noexcept { return numbers_; }

  /// How many entries `plan` writes for a batch.
  std::size_t plan_size(std::size_t samples) const noexcept { return samples * shapes_.size(); }

  /// Plans a batch: the first pass of all samples, then the second of all, and so on.
  void plan(std::span<const std::int64_t> samples, std::uint64_t seed, std::int64_t epoch,
            std::span<PicturePass> out) const;

  /// Plans the sample that `draws` is for, as the `place`-th of a batch of `samples`.
  void plan_sample(const data::Draws& draws, std::size_t place, std::size_t samples,
                   std::span<PicturePass> out) const;

 private:
  enum class Action : std::uint8_t { Flip, Crop, Resize, CropAndResize, Erase };

  /// A step that does something to pixels.
  struct PlannedStep {
    data::Step step;
    std::size_t place = 0;  ///< in its pipeline
    Action action = Action::Flip;
    data::ImageSize before{};  ///< the step
    data::ImageSize after{};
    /// By the extent of what is resized; a single one where that is always the same.
    std::vector<TablePlace> rows{};
    std::vector<TablePlace> columns{};
  };

  void add_step(const data::Step& step, std::size_t place);
  void add_tables(PlannedStep& step);
  void add_shapes();
  PassShape shape_of(data::ImageSize source, data::ImageSize out, const PlannedStep* resize) const;
  void resize(const PlannedStep& step, data::Window& window, PicturePass& pass) const noexcept;

  data::Pipeline pipeline_;
  data::Field image_;
  data::ImageSize source_size_;
  data::ImageSize output_size_;
  ResizeTables tables_;
  LevelNumbers numbers_;
  std::vector<PlannedStep> steps_;
  std::vector<PassShape> shapes_;
};

}  // namespace lockstep::gpu
