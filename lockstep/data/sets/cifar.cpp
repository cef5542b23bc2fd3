#include "lockstep/data/sets/cifar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lockstep/base/strings.h"
#include "lockstep/data/formats/bytes.h"
#include "lockstep/data/formats/pickle.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/data/sets/cifar_files.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCifarSide = 32;
constexpr std::size_t kPlane = kCifarSide * kCifarSide;
constexpr std::size_t kImageBytes = 3 * kPlane;

constexpr std::array<std::string_view, 5> kBinaryTrain10{"data_batch_1.bin", "data_batch_2.bin",
                                                         "data_batch_3.bin", "data_batch_4.bin",
                                                         "data_batch_5.bin"};
constexpr std::array<std::string_view, 1> kBinaryTest10{"test_batch.bin"};
constexpr std::array<std::string_view, 5> kPythonTrain10{
    "data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"};
constexpr std::array<std::string_view, 1> kPythonTest10{"test_batch"};
constexpr std::array<CifarLayout, 2> kLayouts10{{
    {CifarEncoding::Binary, "cifar-10-batches-bin", "cifar-10-binary.tar.gz", kBinaryTrain10,
     kBinaryTest10, "batches.meta.txt"},
    {CifarEncoding::Python, "cifar-10-batches-py", "cifar-10-python.tar.gz", kPythonTrain10,
     kPythonTest10, "batches.meta"},
}};
constexpr std::array<PublishedFile, 9> kPublished10{{
    {"cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"},
    {"cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"},
    {"data_batch_1", "c99cafc152244af753f735de768cd75f"},
    {"data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"},
    {"data_batch_3", "54ebc095f3ab1f0389bbae665268c751"},
    {"data_batch_4", "634d18415352ddfa80567beed471001a"},
    {"data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"},
    {"test_batch", "40351d587109b95175f43aff81a1287e"},
    {"batches.meta", "5ff9c542aee3614f3951f8cda6e48888"},
}};

constexpr std::array<std::string_view, 1> kBinaryTrain100{"train.bin"};
constexpr std::array<std::string_view, 1> kBinaryTest100{"test.bin"};
constexpr std::array<std::string_view, 1> kPythonTrain100{"train"};
constexpr std::array<std::string_view, 1> kPythonTest100{"test"};
constexpr std::array<CifarLayout, 2> kLayouts100{{
    {CifarEncoding::Binary, "cifar-100-binary", "cifar-100-binary.tar.gz", kBinaryTrain100,
     kBinaryTest100, "fine_label_names.txt"},
    {CifarEncoding::Python, "cifar-100-python", "cifar-100-python.tar.gz", kPythonTrain100,
     kPythonTest100, "meta"},
}};
constexpr std::array<PublishedFile, 5> kPublished100{{
    {"cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"},
    {"cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"},
    {"train", "16019d7e3df5f24257cddd939b257f8d"},
    {"test", "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    {"meta", "7973b15100ade9c7d40fb424638fde48"},
}};

constexpr CifarVariant kCifar10{"cifar10",     10,         0,           "labels",
                                "label_names", kLayouts10, kPublished10};
constexpr CifarVariant kCifar100{"cifar100",         100,         20,           "fine_labels",
                                 "fine_label_names", kLayouts100, kPublished100};

/// Reads file after file into arrays in memory.
class CifarReader {
 public:
  explicit CifarReader(const CifarSource& source, const CifarVariant& variant)
      : source_(source), variant_(variant) {}

  DatasetPtr read() {
    for_each_cifar_file(
        source_, [&](std::string_view name, const std::string& where, Bytes content) {
          const bool is_binary = source_.layout->encoding == CifarEncoding::Binary;
          if (name == source_.layout->names) {
            is_binary ? read_text_names(where, content) : read_pickled_names(where, content);
          } else {
            begins_.push_back({labels_.size(), where});
            is_binary ? read_binary(where, content) : read_pickled(where, content);
            check_count(name, where, content.size());
          }
        });
    return make_set();
  }

 private:
  /// Where a file's samples begin.
  struct Begin {
    std::size_t index;
    std::string file;
  };

  /// A file that was cut between two pictures looks like a shorter one; only the others of its
  /// split tell.
  void check_count(std::string_view name, const std::string& where, std::size_t end) {
    const auto count = labels_.size() - begins_.back().index;
    if (begins_.size() == 1) {
      first_name_ = name;
      first_count_ = count;
    } else if (count != first_count_) {
      throw damaged(where, end, fmt::format("{} pictures, as in {}", first_count_, first_name_),
                    fmt::format("{}", count));
    }
  }

  bool has_coarse_labels() const { return variant_.coarse_classes > 0; }

  std::size_t label_bytes() const { return has_coarse_labels() ? 2 : 1; }

  /// Files of a split are as large as each other, so the first tells how much memory it takes.
  void reserve_images(std::size_t bytes_of_file) {
    const auto& layout = *source_.layout;
    const auto files = source_.split == Split::Train ? layout.train : layout.test;
    if (images_.empty()) images_.reserve(files.size() * bytes_of_file);
  }

  /// Files hold a plane for each color; here the colors of a pixel stand side by side.
  void add_image(const std::uint8_t* planes) {
    const auto begin = images_.size();
    images_.resize(begin + kImageBytes);
    auto* pixel = images_.data() + begin;
    for (std::size_t i = 0; i < kPlane; ++i, pixel += 3) {
      pixel[0] = planes[i];
      pixel[1] = planes[kPlane + i];
      pixel[2] = planes[2 * kPlane + i];
    }
  }

  static std::int64_t checked_label(std::int64_t label, std::int64_t classes,
                                    const std::string& where, std::size_t offset) {
    if (label >= 0 && label < classes) return label;
    throw damaged(where, offset, fmt::format("a label of 0 to {}", classes - 1),
                  fmt::format("{}", label));
  }

  void read_binary(const std::string& where, Bytes content) {
    const auto record_bytes = label_bytes() + kImageBytes;
    if (content.empty() || content.size() % record_bytes != 0) {
      throw damaged(where, content.size() - content.size() % record_bytes,
                    fmt::format("records of {} bytes", record_bytes),
                    content.empty()
                        ? "an empty file"
                        : fmt::format("{} bytes in the last one", content.size() % record_bytes),
                    hint_of_size(content.size()));
    }
    reserve_images(content.size());
    for (std::size_t at = 0; at < content.size(); at += record_bytes) {
      const auto* const record = content.data() + at;
      if (has_coarse_labels()) {
        coarse_labels_.push_back(checked_label(record[0], variant_.coarse_classes, where, at));
      }
      const auto label_at = label_bytes() - 1;
      labels_.push_back(checked_label(record[label_at], variant_.classes, where, at + label_at));
      add_image(record + label_bytes());
    }
  }

  std::string hint_of_size(std::size_t size) const {
    const auto record_of_other = (has_coarse_labels() ? 1 : 2) + kImageBytes;
    if (size == 0 || size % record_of_other != 0) return {};
    return fmt::format("its size is that of a file of {}",
                       has_coarse_labels() ? kCifar10.name : kCifar100.name);
  }

  void read_pickled(const std::string& where, Bytes content) {
    const Pickle pickle(content, where);
    const auto& data = member(pickle.root(), "data", PickleKind::Array, where);
    if (data.shape.size() != 2 || data.shape[0] < 1 ||
        data.shape[1] != static_cast<std::int64_t>(kImageBytes)) {
      throw damaged(where, data.offset, fmt::format("'data' of shape [count, {}]", kImageBytes),
                    fmt::format("[{}]", fmt::join(data.shape, ", ")));
    }
    const auto count = static_cast<std::size_t>(data.shape[0]);
    read_labels(pickle.root(), variant_.label_key, variant_.classes, count, where, labels_);
    if (has_coarse_labels()) {
      read_labels(pickle.root(), "coarse_labels", variant_.coarse_classes, count, where,
                  coarse_labels_);
    }
    reserve_images(data.bytes.size());
    for (std::size_t i = 0; i < count; ++i) {
      add_image(as_bytes(data.bytes).data() + i * kImageBytes);
    }
  }

  static void read_labels(const PickleValue& root, std::string_view key, std::int64_t classes,
                          std::size_t count, const std::string& where,
                          std::vector<std::int64_t>& labels) {
    const auto& list = member(root, key, PickleKind::List, where);
    if (list.items.size() != count) {
      throw damaged(where, list.offset, fmt::format("{} entries in '{}'", count, key),
                    fmt::format("{}", list.items.size()));
    }
    for (const auto* const item : list.items) {
      if (item->kind != PickleKind::Int) {
        throw damaged(where, item->offset, fmt::format("integers in '{}'", key),
                      name_of(item->kind));
      }
      labels.push_back(checked_label(item->integer, classes, where, item->offset));
    }
  }

  static const PickleValue& member(const PickleValue& root, std::string_view key, PickleKind kind,
                                   const std::string& where) {
    if (root.kind != PickleKind::Dict) {
      throw damaged(where, root.offset, fmt::format("a dict with '{}'", key), name_of(root.kind));
    }
    const auto* const value = root.find(key);
    if (value == nullptr) {
      throw damaged(where, root.offset, fmt::format("a dict with '{}'", key), keys_of(root));
    }
    if (value->kind != kind) {
      throw damaged(where, value->offset, fmt::format("{} as '{}'", name_of(kind), key),
                    name_of(value->kind));
    }
    return *value;
  }

  static std::string keys_of(const PickleValue& dict) {
    constexpr std::size_t kMostKeys = 8;
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < dict.items.size() && keys.size() < kMostKeys; i += 2) {
      keys.push_back(printable(dict.items[i]->bytes, 40));
    }
    return keys.empty() ? "an empty one" : fmt::format("'{}'", fmt::join(keys, "', '"));
  }

  void read_text_names(const std::string& where, Bytes content) {
    for (const auto line : split(as_text(content), '\n')) {
      if (!trim(line).empty()) names_.emplace_back(trim(line));
    }
    check_names(where, 0);
  }

  void read_pickled_names(const std::string& where, Bytes content) {
    const Pickle pickle(content, where);
    const auto& list = member(pickle.root(), variant_.names_key, PickleKind::List, where);
    for (const auto* const item : list.items) {
      if (item->kind != PickleKind::String) {
        throw damaged(where, item->offset, "names of classes", name_of(item->kind));
      }
      names_.emplace_back(item->bytes);
    }
    check_names(where, list.offset);
  }

  void check_names(const std::string& where, std::size_t offset) const {
    if (names_.size() == static_cast<std::size_t>(variant_.classes)) return;
    throw damaged(where, offset, fmt::format("names of {} classes", variant_.classes),
                  fmt::format("{}", names_.size()));
  }

  DatasetPtr make_set() {
    std::vector<Field> fields{{"image", DataType::U8, {kCifarSide, kCifarSide, 3}},
                              {"label", DataType::I64}};
    std::vector<Array> arrays{array_of(std::move(images_)), array_of(std::move(labels_))};
    if (has_coarse_labels()) {
      fields.push_back({"coarse_label", DataType::I64});
      arrays.push_back(array_of(std::move(coarse_labels_)));
    }
    return std::make_shared<ArrayDataset>(
        std::move(fields), std::move(arrays), std::move(names_),
        [begins = std::move(begins_)](std::int64_t index) {
          const auto position = static_cast<std::size_t>(index);
          auto file = begins.begin();
          while (file + 1 != begins.end() && (file + 1)->index <= position) ++file;
          return fmt::format("{}, picture {}", file->file, position - file->index);
        });
  }

  const CifarSource& source_;
  const CifarVariant& variant_;
  std::vector<std::uint8_t> images_;
  std::vector<std::int64_t> labels_;
  std::vector<std::int64_t> coarse_labels_;
  std::vector<std::string> names_;
  std::vector<Begin> begins_;
  std::string first_name_;  // the split's first file, and how many pictures it has
  std::size_t first_count_ = 0;
};

FoundSet find_set(const CifarVariant& variant, const fs::path& data_dir, Split split) {
  const auto source = find_cifar_source(variant, data_dir, split);
  FoundSet found;
  found.name = fmt::format("{}-{}", variant.name, name_of(split));
  found.files = source.files();
  found.read = [source, &variant] { return CifarReader(source, variant).read(); };
  found.verify = [files = found.files, &variant] {
    return compare_checksums(files, variant.published);
  };
  return found;
}

}  // namespace

FoundSet find_cifar10(const fs::path& data_dir, Split split) {
  return find_set(kCifar10, data_dir, split);
}

FoundSet find_cifar100(const fs::path& data_dir, Split split) {
  return find_set(kCifar100, data_dir, split);
}

}  // namespace lockstep::data
