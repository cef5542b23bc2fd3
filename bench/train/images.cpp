#include "bench/train/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bench/driver/scratch_files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/pack/pack_writer.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/data/sets/find_set.h"
#include "lockstep/data/sets/synthetic.h"
#include "lockstep/data/transform/presets.h"

namespace lockstep::bench {
namespace {

namespace fs = std::filesystem;

/// Throws `Options` for images that are not gray, or that cannot be padded evenly to 32x32.
void check_paddable(const data::Field& image) {
  const auto fits = [](std::int64_t side) {
    return side <= kImageSide && (kImageSide - side) % 2 == 0;
  };
  if (image.type == DataType::U8 && image.kind == data::FieldKind::Fixed &&
      image.shape.size() == 3 && fits(image.shape[0]) && fits(image.shape[1]) &&
      image.shape[2] == 1) {
    return;
  }
  throw Error(ErrorKind::Options,
              fmt::format("bench train: expected gray pictures of 8 bits and an even size up to "
                          "{0}x{0}, found {1}",
                          kImageSide, describe(image)));
}

/// Copies a gray image into the middle of a black one.
void copy_padded(data::ImageView gray, std::uint8_t* to) {
  const auto top = (kImageSide - gray.size.height) / 2;
  const auto left = (kImageSide - gray.size.width) / 2;
  for (std::int64_t y = 0; y < gray.size.height; ++y) {
    auto* out = to + ((top + y) * kImageSide + left) * kImageChannels;
    const auto* const row = gray.row(y);
    for (std::int64_t x = 0; x < gray.size.width; ++x) {
      out = std::fill_n(out, kImageChannels, row[x]);
    }
  }
}

struct ImageSet {
  std::string name;
  data::DatasetPtr set;
  data::Normalize normalize;
};

ImageSet synthetic_images(std::int64_t samples) {
  return {"synthetic-32x32x3",
          data::synthetic({.size = samples,
                           .classes = kImageClasses,
                           .height = kImageSide,
                           .width = kImageSide,
                           .channels = kImageChannels}),
          data::imagenet_normalize()};
}

ImageSet fashion_mnist(std::int64_t samples, const data::SetOptions& where) {
  const auto found = data::find_set("fashion-mnist", data::Split::Train, where);
  const auto gray = data::fashion_mnist_normalize();
  return {"fashion-mnist-32x32x3",
          padded_to_32x32x3(*found.read(), samples),
          {std::vector(kImageChannels, gray.mean.front()),
           std::vector(kImageChannels, gray.deviation.front())}};
}

ImageSet find_images(std::int64_t samples, const data::SetOptions& where) {
  try {
    return fashion_mnist(samples, where);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Data) throw;
    log_line(
        "lockstep: bench train: Fashion-MNIST (dataset-fashion-mnist) is not here: the "
        "pictures are made up");
    return synthetic_images(samples);
  }
}

}  // namespace

data::DatasetPtr padded_to_32x32x3(const data::Dataset& set, std::int64_t samples) {
  const auto image = data::position_of("image", set.fields());
  const auto label = data::position_of("label", set.fields());
  check_paddable(set.fields()[image]);
  constexpr auto kBytes = kImageSide * kImageSide * kImageChannels;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(samples * kBytes));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(samples));
  data::Sample sample(set.fields());
  for (std::int64_t i = 0; i < samples; ++i) {
    set.sample(i % set.size(), sample);
    copy_padded(sample.image(image), pixels.data() + i * kBytes);
    std::memcpy(&labels[static_cast<std::size_t>(i)], sample.data(label), sizeof(std::int64_t));
  }
  std::vector<data::Field> fields{{"image", DataType::U8, {kImageSide, kImageSide, kImageChannels}},
                                  {"label", DataType::I64}};
  return std::make_shared<data::ArrayDataset>(
      std::move(fields),
      std::vector{data::array_of(std::move(pixels)), data::array_of(std::move(labels))},
      set.class_names());
}

TrainImages write_train_data(std::int64_t samples, const fs::path& folder,
                             const data::SetOptions& where) {
  const auto images = find_images(samples, where);
  TrainImages data{.pack = folder / "train.pack",
                   .pixels = folder / "pixels",
                   .labels = folder / "labels",
                   .normalize = images.normalize};
  const auto& fields = images.set->fields();
  data::write_pack(data.pack, *images.set, {.name = images.name});
  write_values(*images.set, data::position_of("image", fields), samples, data.pixels);
  write_values(*images.set, data::position_of("label", fields), samples, data.labels);
  return data;
}

}  // namespace lockstep::bench
