#include "lockstep/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/mapped_file.h"
#include "lockstep/checkpoint/checked_file.h"
#include "lockstep/checkpoint/folder_name.h"
#include "lockstep/data/formats/bytes.h"
#include "lockstep/weights/safetensors.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Many times what one with all options has.
constexpr std::uintmax_t kMostManifestBytes = 16 << 20;
/// So often a folder may change while it is looked through.
constexpr int kMostLooks = 16;
constexpr const char* kHint = "an earlier checkpoint of the same training may be whole";

Error damaged(const fs::path& path, const std::string& expected, const std::string& found) {
  return {ErrorKind::Data, fmt::format("{}: expected {}, found {}", path.string(), expected, found),
          kHint};
}

Error io_error_of(const fs::path& path, const std::error_code& error) {
  return {ErrorKind::Io, fmt::format("{}: {}", path.string(), error.message())};
}

/// What is in a folder, all of which has to be files.
std::set<std::string> file_names(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    const auto name = entry->path().filename().string();
    if (!entry->is_regular_file(unknown)) {
      throw damaged(folder, "files alone", fmt::format("'{}'", data::printable(name)));
    }
    names.insert(name);
  }
  if (error) throw io_error_of(folder, error);
  return names;
}

std::uintmax_t size_of_file(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) throw io_error_of(path, error);
  return size;
}

const FileEntry& entry_of(const Manifest& manifest, std::string_view name, const fs::path& folder) {
  for (const auto& file : manifest.files) {
    if (file.name == name) return file;
  }
  throw damaged(folder / kManifestName, fmt::format("a file '{}'", name), "none");
}

void check_names(const Manifest& manifest, std::set<std::string> found, const fs::path& folder) {
  for (const auto name : {kWeightsName, kStateName}) entry_of(manifest, name, folder);
  found.erase(std::string(kManifestName));
  for (const auto& file : manifest.files) {
    if (file.name != kWeightsName && file.name != kStateName) {
      throw damaged(folder / kManifestName, fmt::format("{} and {}", kWeightsName, kStateName),
                    fmt::format("'{}'", data::printable(file.name)));
    }
    if (found.erase(file.name) == 0) {
      throw damaged(folder, fmt::format("a file '{}'", file.name), "none");
    }
  }
  if (!found.empty()) {
    throw damaged(folder, "the files of its manifest",
                  fmt::format("'{}' too", data::printable(*found.begin())));
  }
}

/// Its manifest, whatever there is beside it.
Manifest manifest_alone(const fs::path& folder) {
  const auto path = folder / kManifestName;
  if (const auto size = size_of_file(path); size > kMostManifestBytes) {
    throw damaged(path, fmt::format("at most {} bytes", kMostManifestBytes),
                  fmt::format("{}", size));
  }
  return parse_manifest(read_file(path.string()), path.string());
}

weights::WeightFile open_file(const fs::path& folder, const FileEntry& entry) {
  const auto path = folder / entry.name;
  if (const auto found = checksum_of_file(path); found != entry.checksum) {
    throw damaged(path, fmt::format("the checksum {}", entry.checksum), found);
  }
  auto file = std::make_shared<const MappedFile>(path.string());
  auto set = weights::read_safetensors(file->bytes(), path.string());
  return {path, std::move(file), weights::WeightFormat::Safetensors, std::move(set)};
}

}  // namespace

Checkpoint::Checkpoint(fs::path path, Manifest manifest, weights::WeightFile weights,
                       weights::WeightFile state)
    : path_(std::move(path)),
      manifest_(std::move(manifest)),
      weights_(std::move(weights)),
      state_(std::move(state)) {}

Checkpoint Checkpoint::open(const fs::path& folder) {
  auto manifest = read_manifest(folder);
  auto weights = open_file(folder, entry_of(manifest, kWeightsName, folder));
  auto state = open_file(folder, entry_of(manifest, kStateName, folder));
  if (const auto found = weights.digest(); found != manifest.weights) {
    throw damaged(weights.path(), fmt::format("weights with the digest {}", manifest.weights),
                  found);
  }
  return {folder, std::move(manifest), std::move(weights), std::move(state)};
}

Manifest read_manifest(const fs::path& folder) {
  const auto names = file_names(folder);
  if (!names.contains(std::string(kManifestName))) {
    throw damaged(folder, fmt::format("a file '{}'", kManifestName), "none");
  }
  auto manifest = manifest_alone(folder);
  check_names(manifest, names, folder);
  for (const auto& file : manifest.files) {
    const auto size = size_of_file(folder / file.name);
    if (std::cmp_not_equal(size, file.bytes)) {
      throw damaged(folder / file.name, fmt::format("{} bytes", file.bytes),
                    fmt::format("{}", size));
    }
  }
  return manifest;
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<std::pair<FolderName, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    const auto name = parse_folder_name(entry->path().filename().string());
    if (name && entry->is_directory(unknown)) found.emplace_back(*name, entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) throw io_error_of(folder, error);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.step, a.first.is_current) <
           std::pair(b.first.step, b.first.is_current);
  });
  std::vector<fs::path> paths;
  for (auto& [name, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<Checkpoint> newest_checkpoint(
    const fs::path& folder,
    const std::function<void(const fs::path&, const std::string& why)>& on_damaged,
    const std::function<bool(const Manifest&)>& is_wanted) {
  std::set<fs::path> told;
  for (int look = 1;; ++look) {
    bool has_changed = false;
    auto paths = list_checkpoints(folder);
    for (; !paths.empty() && !has_changed; paths.pop_back()) {
      try {
        if (!is_wanted || is_wanted(manifest_alone(paths.back()))) {
          return Checkpoint::open(paths.back());
        }
      } catch (const Error& error) {
        // What is no longer there was replaced or removed since: what took its place is better.
        std::error_code unknown;
        has_changed = look < kMostLooks && !fs::exists(paths.back(), unknown);
        if (has_changed || !told.insert(paths.back()).second) continue;
        if (on_damaged) on_damaged(paths.back(), error.what());
      }
    }
    if (!has_changed) return std::nullopt;
  }
}

}  // namespace lockstep::checkpoint
