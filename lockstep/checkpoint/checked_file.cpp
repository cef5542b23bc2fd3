#include "lockstep/checkpoint/checked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

/// What is hashed is still in the core's own cache when it is copied.
constexpr std::size_t kChunkBytes = 64 << 10;
constexpr std::size_t kBufferBytes = 1 << 20;
/// Of memory, offsets and sizes: what disks ask for.
constexpr std::align_val_t kAlignment{4096};
constexpr mode_t kFileMode = 0666;

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

void CheckedFile::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kAlignment);
}

CheckedFile::CheckedFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode)),
      buffer_(static_cast<std::byte*>(::operator new(kBufferBytes, kAlignment))) {
  if (!file_) throw io_error(path_.string());
}

void CheckedFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto chunk = bytes.first(std::min({bytes.size(), kChunkBytes, kBufferBytes - buffered_}));
    checksum_.add(chunk);
    std::memcpy(buffer_.get() + buffered_, chunk.data(), chunk.size());
    buffered_ += chunk.size();
    if (buffered_ == kBufferBytes) flush();
    bytes = bytes.subspan(chunk.size());
  }
}

void CheckedFile::flush() {
  if (direct_ == Direct::Untried && buffered_ == kBufferBytes) {
    direct_ = ::fcntl(file_.get(), F_SETFL, O_DIRECT) == 0 ? Direct::On : Direct::Off;
  }
  std::span<const std::byte> rest(buffer_.get(), buffered_);
  while (!rest.empty()) {
    const auto written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && direct_ == Direct::On) {
      stop_direct();  // a disk with larger blocks
      continue;
    }
    if (written <= 0) throw io_error(path_.string());
    rest = rest.subspan(static_cast<std::size_t>(written));
    if (!rest.empty()) stop_direct();  // nothing is aligned any more
  }
  bytes_ += static_cast<std::int64_t>(buffered_);
  buffered_ = 0;
}

void CheckedFile::stop_direct() {
  if (direct_ == Direct::On && ::fcntl(file_.get(), F_SETFL, 0) != 0) {
    throw io_error(path_.string());
  }
  direct_ = Direct::Off;
}

FileEntry CheckedFile::finish() {
  stop_direct();  // the end of a file has any size
  flush();
  if (::fsync(file_.get()) != 0) throw io_error(path_.string());
  file_.reset();
  return {path_.filename().string(), bytes_, checksum_.hex()};
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
