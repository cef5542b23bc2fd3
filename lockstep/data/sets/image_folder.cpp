#include "lockstep/data/sets/image_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/bytes.h"
#include "lockstep/data/formats/decode_image.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kImage = 0;
constexpr std::size_t kLabel = 1;

constexpr std::string_view kHint =
    "make a folder for each class, with its pictures in it, in <data-dir>/train and "
    "<data-dir>/test, or use --dataset synthetic";

bool is_folder(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is not there
  return fs::is_directory(path, ignored);
}

bool is_hidden(const fs::path& path) {
  return path.filename().native().starts_with('.');
}

bool is_picture(const fs::path& path) {
  auto ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

Error missing(std::string message) {
  return Error(ErrorKind::Data, std::move(message), std::string(kHint));
}

Error cannot_read(const fs::path& path, std::error_code code) {
  return Error(ErrorKind::Io, fmt::format("read {}: {}", path.string(), code.message()));
}

/// What is in a folder and not hidden, in any order. The iterator's own errors do not always name
/// the folder.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    if (!is_hidden(entry->path())) entries.push_back(*entry);
  }
  if (failed) throw cannot_read(folder, failed);
  return entries;
}

/// What an entry is, or what the link points to that it is: `not_found` where that is gone.
fs::file_type type_of(const fs::directory_entry& entry) {
  std::error_code failed;
  // These mostly come with the listing; a status for each of a million files takes its time.
  if (entry.is_regular_file(failed)) return fs::file_type::regular;
  if (entry.is_directory(failed)) return fs::file_type::directory;
  const auto type = entry.status(failed).type();
  if (failed && type != fs::file_type::not_found) throw cannot_read(entry.path(), failed);
  return type;
}

/// A link to nothing is a class or a picture that is lost: passing it over would number the other
/// classes anew.
Error dangling(const fs::path& link) {
  return Error(ErrorKind::Data,
               fmt::format("image-folder: expected the target of {}, found none", link.string()));
}

/// Names of the folders in a folder, sorted.
std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder)) {
    const auto type = type_of(entry);
    if (type == fs::file_type::not_found) throw dangling(entry.path());
    if (type == fs::file_type::directory) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Goes through folders and the folders in them, which may be links, and lists pictures.
class PictureSearch {
 public:
  void search(const fs::path& folder) {
    enter(folder);
    for (const auto& entry : entries_of(folder)) {
      const auto type = type_of(entry);
      if (type == fs::file_type::directory) {
        search(entry.path());
      } else if (is_picture(entry.path())) {
        if (type == fs::file_type::not_found) throw dangling(entry.path());
        if (type == fs::file_type::regular) files.push_back(entry.path());
      }
    }
    path_.pop_back();
  }

  std::vector<fs::path> files;

 private:
  using Identity = std::pair<dev_t, ino_t>;

  /// A link to a folder that it lies in would give the same pictures again and again.
  void enter(const fs::path& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) {
      throw cannot_read(folder, {errno, std::generic_category()});
    }
    const Identity identity{status.st_dev, status.st_ino};
    if (std::find(path_.begin(), path_.end(), identity) != path_.end()) {
      throw Error(ErrorKind::Data,
                  fmt::format("image-folder: expected folders that end, found {}, a link to a "
                              "folder that it is in",
                              folder.string()));
    }
    path_.push_back(identity);
  }

  std::vector<Identity> path_;  // the folders that are being gone through
};

std::vector<fs::path> pictures_below(const fs::path& folder) {
  PictureSearch search;
  search.search(folder);
  auto files = std::move(search.files);
  // Byte by byte: comparing paths part by part takes seconds where there are a million.
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

/// Which folder a split's classes are in.
fs::path folder_of(const fs::path& data_dir, Split split) {
  if (!is_folder(data_dir)) {
    throw missing(fmt::format("image-folder: expected a folder {}, found none",
                              data_dir.empty() ? "given as --data-dir" : data_dir.string()));
  }
  const bool has_train = is_folder(data_dir / "train");
  if (split == Split::Train) return has_train ? data_dir / "train" : data_dir;
  if (!has_train) {
    throw missing(
        fmt::format("image-folder: {} has no folder 'train', so it is the train split "
                    "as a whole: expected a test split, found none",
                    data_dir.string()));
  }
  for (const auto* const name : {"test", "val", "valid", "validation"}) {
    if (is_folder(data_dir / name)) return data_dir / name;
  }
  throw missing(
      fmt::format("image-folder: expected one of the folders test, val, valid, "
                  "validation in {}, found none",
                  data_dir.string()));
}

std::vector<std::string> find_classes(const fs::path& folder) {
  auto names = class_folders(folder);
  if (!names.empty()) return names;
  const auto loose = pictures_below(folder).size();
  throw missing(fmt::format("image-folder: expected a folder for each class in {}, found {}",
                            folder.string(),
                            loose == 0 ? "none" : fmt::format("{} pictures without one", loose)));
}

void add_class(const fs::path& folder, std::int64_t label, ImageListing& listing) {
  for (auto& file : pictures_below(folder)) {
    listing.files.push_back(std::move(file));
    listing.labels.push_back(label);
  }
}

ImageListing list_train(const fs::path& folder) {
  ImageListing listing;
  listing.class_names = find_classes(folder);
  for (std::size_t i = 0; i < listing.class_names.size(); ++i) {
    const auto class_folder = folder / listing.class_names[i];
    const auto before = listing.files.size();
    add_class(class_folder, static_cast<std::int64_t>(i), listing);
    if (listing.files.size() == before) {
      throw missing(
          fmt::format("image-folder: expected pictures (jpg, jpeg, png) in {}, "
                      "found none",
                      class_folder.string()));
    }
  }
  return listing;
}

ImageListing list_test(const fs::path& folder, const fs::path& train) {
  ImageListing listing;
  listing.class_names = find_classes(train);
  const auto& classes = listing.class_names;
  for (const auto& name : find_classes(folder)) {
    const auto known = std::lower_bound(classes.begin(), classes.end(), name);
    if (known == classes.end() || *known != name) {
      throw missing(fmt::format("image-folder: expected classes that are in {} too, found {}",
                                train.string(), (folder / name).string()));
    }
    add_class(folder / name, known - classes.begin(), listing);
  }
  if (listing.files.empty()) {
    throw missing(fmt::format("image-folder: expected pictures (jpg, jpeg, png) in {}, found none",
                              folder.string()));
  }
  return listing;
}

ImageListing list_split(const fs::path& data_dir, Split split) {
  const auto folder = folder_of(data_dir, split);
  return split == Split::Train ? list_train(folder) : list_test(folder, data_dir / "train");
}

}  // namespace

ImageFolder::ImageFolder(std::shared_ptr<const ImageListing> listing)
    : Dataset(
          {{"image", DataType::U8, {0, 0, 3}, FieldKind::AnySizeImage}, {"label", DataType::I64}},
          listing->class_names),
      listing_(std::move(listing)) {}

std::int64_t ImageFolder::size() const {
  return static_cast<std::int64_t>(listing_->files.size());
}

void ImageFolder::sample(std::int64_t index, Sample& sample) const {
  // A worker reads thousands of files: each into the memory of the last one.
  thread_local std::string content;
  read_file_into(file(index), content);
  decode_image(as_bytes(content), file(index).native(),
               [&](ImageSize size) { return sample.write_image(kImage, size); });
  sample.set(kLabel, label(index));
}

std::string ImageFolder::source_of(std::int64_t index) const {
  return file(index).string();
}

std::int64_t ImageFolder::label(std::int64_t index) const {
  return listing_->labels[static_cast<std::size_t>(index)];
}

std::string ImageFolder::stored_bytes(std::int64_t index) const {
  std::string content;
  read_file_into(file(index), content);
  return content;
}

const fs::path& ImageFolder::file(std::int64_t index) const {
  return listing_->files[static_cast<std::size_t>(index)];
}

FoundSet find_image_folder(const fs::path& data_dir, Split split) {
  const auto listing = std::make_shared<const ImageListing>(list_split(data_dir, split));
  FoundSet found;
  found.name = fmt::format("folder-{}", name_of(split));
  found.files = listing->files;
  found.packs_by_itself = false;
  found.read = [listing] { return std::make_shared<const ImageFolder>(listing); };
  found.verify = [] { return Verification{}; };  // nobody published these
  return found;
}

}  // namespace lockstep::data
