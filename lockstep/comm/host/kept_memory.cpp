#include "lockstep/comm/host/kept_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/comm/host/job_memory.h"

namespace lockstep::comm::host {
namespace {

constexpr std::uint64_t kMagic = 0x4c4b53544b455054;
constexpr std::uint32_t kMostPieces = 64;

/// To be changed with the header: launcher and program may be of different builds.
constexpr std::uint64_t kLayout = 2;

std::uint64_t identity_of(std::string_view job_id) {
  return Fnv().add(kLayout).add(job_id).value();
}

struct PieceEntry {
  std::array<char, 64> name;
  std::uint64_t fingerprint;
  std::uint64_t offset;
  std::uint64_t bytes;

  bool fits(std::string_view wanted, std::uint64_t print, std::uint64_t size) const noexcept {
    return std::string_view(name.data()) == wanted && fingerprint == print && bytes == size;
  }
};

std::array<char, 64> short_name(std::string_view name) noexcept {
  std::array<char, 64> text{};
  std::copy_n(name.data(), std::min(name.size(), text.size() - 1), text.data());
  return text;
}

}  // namespace

struct KeptMemory::Header {
  std::uint64_t magic;
  std::uint64_t identity;
  std::atomic<std::int64_t> step;
  std::atomic<std::int32_t> given_up;
  /// An entry counts from the moment that it is among so many, and is complete then.
  std::atomic<std::uint32_t> num_pieces;
  std::atomic<std::uint32_t> num_asked_for;  ///< in this attempt
  std::array<PieceEntry, kMostPieces> pieces;
};

KeptMemory::KeptMemory(UniqueFd file)
    : file_(std::move(file)), header_(file_.get(), 0, round_up(sizeof(Header), kPage)) {}

KeptMemory::Header& KeptMemory::header() const noexcept {
  return *reinterpret_cast<Header*>(header_.data());
}

KeptMemory KeptMemory::create(std::string_view job_id) {
  UniqueFd file(::memfd_create("lockstep-kept", MFD_CLOEXEC));
  if (!file) throw io_error("kept memory: memfd_create");
  provide_pages(file.get(), 0, round_up(sizeof(Header), kPage));
  KeptMemory memory(std::move(file));
  memory.header().step.store(-1);
  memory.begin_attempt();
  memory.header().identity = identity_of(job_id);
  memory.header().magic = kMagic;
  return memory;
}

KeptMemory KeptMemory::open(int fd, std::string_view job_id) {
  struct stat status {};
  UniqueFd file(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!file || ::fstat(file.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < sizeof(Header)) {
    throw Error(ErrorKind::Unavailable,
                fmt::format("kept memory: descriptor {} is not the memory of this job", fd),
                "start the program so that it keeps the descriptors that the launcher gave it");
  }
  KeptMemory memory(std::move(file));
  if (memory.header().magic != kMagic || memory.header().identity != identity_of(job_id)) {
    throw Error(ErrorKind::Unavailable,
                "kept memory: it belongs to another job, or to another build of lockstep",
                "start the job with the 'lockstep' that the program was built with");
  }
  return memory;
}

void KeptMemory::begin_attempt() noexcept {
  header().num_asked_for.store(0);
  header().given_up.store(-1);
}

std::optional<KeptMemory::Piece> KeptMemory::next(std::string_view name, std::uint64_t fingerprint,
                                                  std::size_t bytes) {
  auto& head = header();
  if (head.num_asked_for.load() == kMostPieces) return std::nullopt;
  const auto index = head.num_asked_for.fetch_add(1);
  const auto kept_name = short_name(name);
  auto& entry = head.pieces[index];
  if (index < head.num_pieces.load(std::memory_order_acquire) &&
      entry.fits(kept_name.data(), fingerprint, bytes)) {
    return Piece{entry.offset, false};
  }
  head.num_pieces.store(index, std::memory_order_release);
  const auto offset =
      index == 0 ? round_up(sizeof(Header), kPage)
                 : head.pieces[index - 1].offset + round_up(head.pieces[index - 1].bytes, kPage);
  // What is given up must not be found again in a piece that counts as zeroed.
  if (::ftruncate(file_.get(), static_cast<off_t>(offset)) != 0) throw io_error("kept memory");
  provide_pages(file_.get(), offset, round_up(bytes, kPage));
  entry = {kept_name, fingerprint, offset, bytes};
  head.num_pieces.store(index + 1, std::memory_order_release);
  return Piece{offset, true};
}

SharedMemory KeptMemory::map(std::uint64_t offset, std::size_t bytes) const {
  return {file_.get(), offset, bytes};
}

int KeptMemory::num_pieces() const noexcept {
  return static_cast<int>(header().num_pieces.load(std::memory_order_acquire));
}

std::int64_t KeptMemory::step() const noexcept {
  return header().step.load(std::memory_order_relaxed);
}

void KeptMemory::note_step(std::int64_t step) noexcept {
  header().step.store(step, std::memory_order_relaxed);
}

int KeptMemory::given_up() const noexcept {
  return header().given_up.load(std::memory_order_relaxed);
}

void KeptMemory::note_given_up(int instance) noexcept {
  header().given_up.store(instance, std::memory_order_relaxed);
}

}  // namespace lockstep::comm::host
