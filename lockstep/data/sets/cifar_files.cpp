#include "lockstep/data/sets/cifar_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/data/formats/archive.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNamesShown = 4;

using UseFile = std::function<void(std::string_view, const std::string&, Bytes)>;

bool is_file(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is not there
  return fs::is_regular_file(path, ignored);
}

std::span<const std::string_view> files_of(const CifarLayout& layout, Split split) {
  return split == Split::Train ? layout.train : layout.test;
}

/// The archive in a folder, packed or unpacked to a plain tar; nothing if there is none.
fs::path find_archive(const fs::path& folder, std::string_view name) {
  constexpr std::size_t kEnding = std::string_view(".gz").size();
  for (const auto& archive : {folder / name, folder / name.substr(0, name.size() - kEnding)}) {
    if (is_file(archive)) return archive;
  }
  return {};
}

/// The folder itself, then those just below it in the order of their names.
std::vector<fs::path> places_in(const fs::path& data_dir) {
  std::vector<fs::path> below;
  std::error_code failed;
  for (fs::directory_iterator entry(data_dir, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) below.push_back(entry->path());
  }
  std::sort(below.begin(), below.end());
  std::vector<fs::path> places{data_dir};
  places.insert(places.end(), below.begin(), below.end());
  return places;
}

/// The search for one split, and what it came by on its way.
class Search {
 public:
  Search(const CifarVariant& variant, const fs::path& data_dir, Split split)
      : variant_(variant), data_dir_(data_dir), split_(split), places_(places_in(data_dir)) {}

  CifarSource run() {
    for (const auto& layout : variant_.layouts) {
      if (is_complete(layout, data_dir_)) return {&layout, split_, data_dir_, {}};
      for (const auto& place : places_) {
        const auto folder = place / layout.folder;
        if (is_complete(layout, folder)) return {&layout, split_, folder, {}};
      }
    }
    for (const auto& layout : variant_.layouts) {
      for (const auto& place : places_) {
        const auto archive = find_archive(place, layout.archive);
        if (!archive.empty()) return {&layout, split_, {}, archive};
      }
    }
    throw missing();
  }

 private:
  bool is_complete(const CifarLayout& layout, const fs::path& folder) {
    const auto wanted = files_of(layout, split_);
    const auto has = [&](std::string_view name) { return is_file(folder / name); };
    const auto lacking = std::find_if_not(wanted.begin(), wanted.end(), has);
    if (lacking == wanted.end()) return true;
    std::error_code ignored;
    const bool is_meant = folder.filename() == layout.folder && fs::is_directory(folder, ignored);
    if (is_meant && incomplete_.empty()) {
      incomplete_ = fmt::format("{} without {}", folder.string(), *lacking);
    }
    return false;
  }

  Error missing() const {
    std::vector<std::string> wanted;
    for (const auto& layout : variant_.layouts) {
      wanted.push_back(fmt::format("{}/", layout.folder));
      wanted.emplace_back(layout.archive);
    }
    const auto& best = variant_.layouts.front();
    return Error(
        ErrorKind::Data,
        fmt::format("{}: expected one of {} in {} or a folder just below; found {}", variant_.name,
                    fmt::join(wanted, ", "), data_dir_.string(), what_was_found()),
        fmt::format("get {} from https://www.cs.toronto.edu/~kriz/cifar.html and put it, as it is "
                    "or unpacked, into {}, or use --dataset synthetic",
                    best.archive, data_dir_.string()));
  }

  std::string what_was_found() const {
    std::error_code ignored;
    if (!fs::is_directory(data_dir_, ignored)) return "no such folder";
    return incomplete_.empty() ? "none" : incomplete_;
  }

  const CifarVariant& variant_;
  const fs::path& data_dir_;
  Split split_;
  std::vector<fs::path> places_;
  std::string incomplete_;
};

void for_each_in_folder(const CifarSource& source, const UseFile& use) {
  std::string content;
  for (const auto& file : source.files()) {
    read_file_into(file, content);
    use(file.filename().string(), file.string(), as_bytes(content));
  }
}

void for_each_in_archive(const CifarSource& source, const UseFile& use) {
  const auto& layout = *source.layout;
  std::vector<std::string> wanted;
  for (const auto name : files_of(layout, source.split)) {
    wanted.push_back(fmt::format("{}/{}", layout.folder, name));
  }
  wanted.push_back(fmt::format("{}/{}", layout.folder, layout.names));

  std::string packed;
  read_file_into(source.archive, packed);
  const auto archive = source.archive.string();
  std::vector<std::string> seen;  // the first few, for a message
  const auto is_wanted = [&](std::string_view name) {
    if (seen.size() < kMostNamesShown) seen.push_back(printable(name));
    return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  const auto files = read_archive(as_bytes(packed), archive, {.wanted = is_wanted});
  packed = {};
  for (const auto& name : wanted) {
    const auto has_name = [&](const ArchivedFile& file) { return file.name == name; };
    const auto file = std::find_if(files.begin(), files.end(), has_name);
    if (file != files.end()) {
      use(name.substr(layout.folder.size() + 1), archive + ": " + name, as_bytes(file->content));
    } else if (name != wanted.back()) {
      throw Error(
          ErrorKind::Data,
          fmt::format("{}: expected a file '{}' in it, found {}", archive, name,
                      seen.empty() ? "no files"
                                   : fmt::format("'{}'{}", fmt::join(seen, "', '"),
                                                 seen.size() < kMostNamesShown ? "" : " …")));
    }
  }
}

}  // namespace

std::vector<fs::path> CifarSource::files() const {
  if (!archive.empty()) return {archive};
  std::vector<fs::path> files;
  for (const auto name : files_of(*layout, split)) files.push_back(folder / name);
  if (is_file(folder / layout->names)) files.push_back(folder / layout->names);
  return files;
}

CifarSource find_cifar_source(const CifarVariant& variant, const fs::path& data_dir, Split split) {
  if (data_dir.empty()) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: expected a folder that holds it, found none given", variant.name),
                fmt::format("get {} from https://www.cs.toronto.edu/~kriz/cifar.html and give its "
                            "folder as --data-dir, or use --dataset synthetic",
                            variant.layouts.front().archive));
  }
  return Search(variant, data_dir, split).run();
}

void for_each_cifar_file(const CifarSource& source, const UseFile& use) {
  source.archive.empty() ? for_each_in_folder(source, use) : for_each_in_archive(source, use);
}

}  // namespace lockstep::data
