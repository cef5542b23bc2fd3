#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {

/// XXH3 of 128 bits, as `xxhsum -H2` prints it.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A new file whose checksum is taken while its bytes pass through. Errors: `Io`, naming the file.
///
/// They go past the page cache, where the file system can do that: nobody will read them soon, and
/// finding and filling pages for them costs more than all the rest.
class CheckedFile {
 public:
  explicit CheckedFile(std::filesystem::path path);

  void append(std::span<const std::byte> bytes);

  /// Brings it to disk.
  FileEntry finish();

 private:
  enum class Direct : std::uint8_t { Untried, On, Off };
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  void flush();
  void stop_direct();

  std::filesystem::path path_;
  UniqueFd file_;
  Checksum checksum_;
  std::unique_ptr<std::byte, Free> buffer_;
  std::size_t buffered_ = 0;
  std::int64_t bytes_ = 0;
  Direct direct_ = Direct::Untried;
};

/// The checksum of a file. It is read, not mapped: a bad sector is an error then, not a signal.
/// Errors: `Io`, naming the file.
std::string checksum_of_file(const std::filesystem::path& path);

/// Brings the names in an open folder to disk, where the file system can promise that.
/// Errors: `Io`, naming it.
void sync_folder(int folder, const std::filesystem::path& path);
void sync_folder(const std::filesystem::path& path);

}  // namespace lockstep::checkpoint
