#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/base/export.h"
#include "lockstep/data/field.h"
#include "lockstep/data/image.h"
#include "lockstep/data/transform/pipeline.h"

namespace lockstep::data {

/// How pictures are varied in training.
enum class Augment : std::uint8_t {
  None,
  Flip,      ///< mirrored half of the time
  Standard,  ///< flip, and a random crop: of the padded picture, or a resized one for any size
};

LOCKSTEP_API std::string_view name_of(Augment augment) noexcept;
/// Throws `Options`, with the choices.
LOCKSTEP_API Augment parse_augment(std::string_view text);

/// What the presets leave open.
struct PresetOptions {
  /// What every picture becomes; {0, 0} leaves pictures of one size as they are.
  ImageSize size{};
  std::optional<Normalize> normalize{};
  OutputFormat output{};
};

/// Standard is, for pictures of one size, a crop of that size with padding of an eighth of it (4
/// for 32x32) and a flip; for pictures of any size, a random resized crop and a flip. Throws
/// `Options` for pictures of any size where no size is given.
LOCKSTEP_API Pipeline training_pipeline(Augment augment, const Field& image,
                                        const PresetOptions& options);

/// Without chance: pictures of any size are resized so that the crop of their centre is 7/8 of the
/// shorter side (224 of 256).
LOCKSTEP_API Pipeline evaluation_pipeline(const Field& image, const PresetOptions& options);

/// The tutorial's: flip, resize to 64x64, u8.
LOCKSTEP_API Pipeline tutorial_pipeline();

/// The statistics of well-known sets, as everybody uses them.
LOCKSTEP_API Normalize imagenet_normalize();
LOCKSTEP_API Normalize cifar10_normalize();
LOCKSTEP_API Normalize cifar100_normalize();
LOCKSTEP_API Normalize mnist_normalize();
LOCKSTEP_API Normalize fashion_mnist_normalize();

}  // namespace lockstep::data
