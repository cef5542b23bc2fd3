#include "lockstep/checkpoint/checked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

/// What is hashed is still in the core's own cache when it is copied.
constexpr std::size_t kChunkBytes = 256 << 10;
constexpr mode_t kUnlessMasked = 0666;

}  // namespace

struct Checksum::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> hash{XXH3_createState()};
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  if (!state_->hash) throw std::bad_alloc();
  XXH3_128bits_reset(state_->hash.get());
}

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->hash.get(), bytes.data(), bytes.size());
}

std::string Checksum::hex() const {
  const auto hash = XXH3_128bits_digest(state_->hash.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

CheckedFile::CheckedFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kUnlessMasked)) {
  if (!file_) throw io_error(path_.string());
}

void CheckedFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto chunk = bytes.first(std::min(bytes.size(), kChunkBytes));
    checksum_.add(chunk);
    write(chunk);
    bytes = bytes.subspan(chunk.size());
  }
}

void CheckedFile::write(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const auto written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw io_error(path_.string());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

FileEntry CheckedFile::finish() {
  if (::fsync(file_.get()) != 0) throw io_error(path_.string());
  const auto bytes = ::lseek(file_.get(), 0, SEEK_CUR);
  if (bytes < 0) throw io_error(path_.string());
  file_.reset();
  return {path_.filename().string(), bytes, checksum_.hex()};
}

std::string checksum_of_file(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw io_error(path.string());
  Checksum checksum;
  std::vector<std::byte> chunk(kChunkBytes);
  while (true) {
    const auto count = ::read(file.get(), chunk.data(), chunk.size());
    if (count == 0) return checksum.hex();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error(path.string());
    checksum.add(std::span(chunk).first(static_cast<std::size_t>(count)));
  }
}

void sync_folder(int folder, const std::filesystem::path& path) {
  if (::fsync(folder) != 0 && errno != EINVAL) throw io_error(path.string());
}

void sync_folder(const std::filesystem::path& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw io_error(path.string());
  sync_folder(folder.get(), path);
}

}  // namespace lockstep::checkpoint
