#include "lockstep/data/sets/mnist.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "lockstep/data/formats/bytes.h"
#include "lockstep/data/formats/gzip.h"
#include "lockstep/data/formats/idx.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/data/sets/checksums.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMnistSide = 28;
constexpr std::int64_t kClasses = 10;
/// Twenty times the largest file there is.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr const char* kFolderOfDebian = "/usr/share/datasets/fashion-mnist";

constexpr std::array<PublishedFile, 4> kMnistFiles{{
    {"train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
    {"train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"},
    {"t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"},
    {"t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"},
}};

constexpr std::array<PublishedFile, 12> kFashionFiles{{
    {"train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
    {"train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"},
    {"t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"},
    {"t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"},
    // Debian packs them anew, without the name of the file inside.
    {"train-images-idx3-ubyte.gz", "cf8536b0aa1a6ac5fa3f23001093305c"},
    {"train-labels-idx1-ubyte.gz", "10bea18fdb374794d4bb42e356e600c9"},
    {"t10k-images-idx3-ubyte.gz", "f78720b4224f21cce2f2ccf2d7a94c9a"},
    {"t10k-labels-idx1-ubyte.gz", "0d30e22e447f3c33dab9ed536400ac01"},
    // What is inside.
    {"train-images-idx3-ubyte", "f4a8712d7a061bf5bd6d2ca38dc4d50a"},
    {"train-labels-idx1-ubyte", "9018921c3c673c538a1fc5bad174d6f9"},
    {"t10k-images-idx3-ubyte", "8181f5470baa50b63fa0f6fddb340f0a"},
    {"t10k-labels-idx1-ubyte", "15d484375f8d13e6eb1aabb0c3f46965"},
}};

/// What tells the two sets apart.
struct Variant {
  std::string_view name;
  std::string_view folder;  ///< that torchvision makes
  std::array<const char*, kClasses> class_names;
  std::span<const PublishedFile> published;
  std::string_view hint;
};

constexpr Variant kMnist{
    "mnist",
    "MNIST/raw",
    {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
    kMnistFiles,
    "get the four .gz files of MNIST (https://yann.lecun.com/exdb/mnist, or the mirror "
    "https://ossci-datasets.s3.amazonaws.com/mnist/) and put them into the folder given as "
    "--data-dir, or use --dataset synthetic"};

constexpr Variant kFashion{
    "fashion-mnist",
    "FashionMNIST/raw",
    {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
     "Ankle boot"},
    kFashionFiles,
    "apt-get install dataset-fashion-mnist; or get the four .gz files from "
    "https://github.com/zalandoresearch/fashion-mnist and put them into the folder given as "
    "--data-dir, or use --dataset synthetic"};

struct SplitFiles {
  fs::path images;
  fs::path labels;
};

/// The file under one of the names that it goes by; nothing if it is under none.
fs::path find_file(const fs::path& folder, std::string_view part, std::string_view kind) {
  for (const auto* const ending : {"", ".gz"}) {
    for (const char separator : {'-', '.'}) {
      auto file = folder / fmt::format("{}{}{}-ubyte{}", part, separator, kind, ending);
      std::error_code ignored;  // what cannot be looked at is not there
      if (fs::is_regular_file(file, ignored)) return file;
    }
  }
  return {};
}

std::vector<fs::path> folders_to_search(const Variant& variant, const fs::path& data_dir) {
  if (data_dir.empty()) {
    if (variant.name == kFashion.name) return {kFolderOfDebian};
    return {};
  }
  return {data_dir, data_dir / "raw", data_dir / variant.folder};
}

SplitFiles find_files(const Variant& variant, const fs::path& data_dir, Split split) {
  const std::string prefix = split == Split::Train ? "train" : "t10k";
  std::string places;
  std::string halves;
  for (const auto& folder : folders_to_search(variant, data_dir)) {
    SplitFiles files{find_file(folder, prefix + "-images", "idx3"),
                     find_file(folder, prefix + "-labels", "idx1")};
    if (!files.images.empty() && !files.labels.empty()) return files;
    places += (places.empty() ? "" : ", ") + folder.string();
    if (files.images.empty() != files.labels.empty()) {
      halves = ", but only " + (files.images.empty() ? files.labels : files.images).string();
    }
  }
  throw Error(
      ErrorKind::Data,
      fmt::format("{}: expected {}-images-idx3-ubyte and {}-labels-idx1-ubyte, or both "
                  "with .gz, in {}; found neither{}",
                  variant.name, prefix, prefix,
                  places.empty() ? "the folder given as --data-dir, and none is given" : places,
                  halves),
      std::string(variant.hint));
}

/// The array of a file, with the memory that it stands in.
struct LoadedIdx {
  std::shared_ptr<const std::string> content;
  IdxArray array;
  std::string where;
};

LoadedIdx load_idx(const fs::path& file) {
  auto content = std::make_shared<std::string>();
  read_file_into(file, *content);
  auto where = file.string();
  // Browsers unpack what they fetch and leave the name as it was: the content tells.
  if (is_gzip(as_bytes(*content))) {
    *content = unpack_gzip(as_bytes(*content), where, kMostBytes);
    where += ", unpacked";
  }
  auto array = read_idx(as_bytes(*content), where);
  return {std::move(content), std::move(array), std::move(where)};
}

void check_shape(const LoadedIdx& file, std::size_t dimensions, std::string_view expected) {
  const auto& shape = file.array.shape;
  const bool is_right = shape.size() == dimensions &&
                        (dimensions == 1 || (shape[1] == kMnistSide && shape[2] == kMnistSide));
  if (is_right) return;
  std::string found = "the shape [";
  for (const auto extent : shape)
    found += fmt::format("{}{}", found.back() == '[' ? "" : ", ", extent);
  throw damaged(file.where, 3, expected, found + "]");
}

std::vector<std::int64_t> read_labels(const LoadedIdx& file) {
  const auto elements = file.array.elements;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] >= kClasses) {
      throw damaged(file.where, file.array.offset + i,
                    fmt::format("a label of 0 to {}", kClasses - 1),
                    fmt::format("{}", elements[i]));
    }
  }
  return {elements.begin(), elements.end()};
}

DatasetPtr read_set(const Variant& variant, const SplitFiles& files) {
  const auto images = load_idx(files.images);
  check_shape(images, 3, "pictures, of shape [count, 28, 28]");
  const auto labels = load_idx(files.labels);
  check_shape(labels, 1, "labels, of shape [count]");
  if (images.array.shape[0] != labels.array.shape[0]) {
    throw damaged(labels.where, 4,
                  fmt::format("{} labels, as many as pictures in {}", images.array.shape[0],
                              files.images.string()),
                  fmt::format("{}", labels.array.shape[0]));
  }
  Array pixels{DataType::U8, std::as_bytes(images.array.elements), images.content};
  return std::make_shared<ArrayDataset>(
      std::vector<Field>{{"image", DataType::U8, {kMnistSide, kMnistSide, 1}},
                         {"label", DataType::I64}},
      std::vector<Array>{std::move(pixels), array_of(read_labels(labels))},
      std::vector<std::string>(variant.class_names.begin(), variant.class_names.end()),
      [file = files.images.string()](std::int64_t) { return file; });
}

FoundSet find_set(const Variant& variant, const fs::path& data_dir, Split split) {
  const auto files = find_files(variant, data_dir, split);
  FoundSet found;
  found.name = fmt::format("{}-{}", variant.name, name_of(split));
  found.files = {files.images, files.labels};
  found.read = [&variant, files] { return read_set(variant, files); };
  found.verify = [&variant, files = found.files] {
    return compare_checksums(files, variant.published);
  };
  return found;
}

}  // namespace

FoundSet find_mnist(const fs::path& data_dir, Split split) {
  return find_set(kMnist, data_dir, split);
}

FoundSet find_fashion_mnist(const fs::path& data_dir, Split split) {
  return find_set(kFashion, data_dir, split);
}

}  // namespace lockstep::data
