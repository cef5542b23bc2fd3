#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sets/found_set.h"

namespace lockstep::data {

/// The pictures of a folder that has a folder for each class, and which class each is of.
struct ImageListing {
  std::vector<std::string> class_names;
  std::vector<std::filesystem::path> files;
  std::vector<std::int64_t> labels;
};

/// JPEG and PNG files, decoded when they are asked for: "image" u8 [any, any, 3] and "label" i64.
class ImageFolder : public Dataset {
 public:
  explicit ImageFolder(std::shared_ptr<const ImageListing> listing);

  std::int64_t size() const override;
  void sample(std::int64_t index, Sample& sample) const override;
  std::string source_of(std::int64_t index) const override;

  std::int64_t label(std::int64_t index) const;
  /// The file as it is, for packs of undecoded pictures.
  std::string stored_bytes(std::int64_t index) const;

 private:
  const std::filesystem::path& file(std::int64_t index) const;

  std::shared_ptr<const ImageListing> listing_;
};

/// Looks for `data_dir/train`, and for the test split `data_dir/test`, `val`, `valid` or
/// `validation`; where there is no `train`, `data_dir` itself is the train split, and there is no
/// other. Classes are the folders of `train` in the order of their names, and a class of the test
/// split must be one of them. Pictures are found at any depth below a class, sorted by path; their
/// names end in jpg, jpeg or png, in any case. What begins with a dot is passed over. Links are
/// followed.
///
/// Its `read` gives an `ImageFolder`.
///
/// Errors: `Data` where the folders are not as said, a class or picture is a link to nothing, or a
/// folder a link to one that it is in; `Io` where one cannot be read.
FoundSet find_image_folder(const std::filesystem::path& data_dir, Split split);

}  // namespace lockstep::data
