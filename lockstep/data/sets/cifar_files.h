#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/formats/bytes.h"
#include "lockstep/data/sets/checksums.h"

namespace lockstep::data {

enum class CifarEncoding : std::uint8_t { Binary, Python };

/// One of the ways in which a set is published: files in a folder, or that folder in an archive.
struct CifarLayout {
  CifarEncoding encoding;
  std::string_view folder;
  std::string_view archive;
  std::span<const std::string_view> train;
  std::span<const std::string_view> test;
  std::string_view names;  ///< the file that lists the names of the classes
};

/// What tells CIFAR-10 and CIFAR-100 apart.
struct CifarVariant {
  std::string_view name;
  std::int64_t classes;
  std::int64_t coarse_classes;  ///< 0 where there are none
  std::string_view label_key;   ///< in the Python layout
  std::string_view names_key;
  std::span<const CifarLayout> layouts;  ///< the one to prefer comes first
  std::span<const PublishedFile> published;
};

/// Where a split was found.
struct CifarSource {
  const CifarLayout* layout = nullptr;
  Split split = Split::Train;
  std::filesystem::path folder;   ///< with the files, or empty
  std::filesystem::path archive;  ///< with the folder in it, or empty

  std::vector<std::filesystem::path> files() const;
};

/// Throws `Data` where no layout is complete.
CifarSource find_cifar_source(const CifarVariant& variant, const std::filesystem::path& data_dir,
                              Split split);

/// Hands each file of the split to `use`, in order, and the one with names last if there is one.
/// `where` is the file for messages.
void for_each_cifar_file(
    const CifarSource& source,
    const std::function<void(std::string_view name, const std::string& where, Bytes content)>& use);

}  // namespace lockstep::data
