#include "lockstep/comm/host/job_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/process_facts.h"

namespace lockstep::comm::host {
namespace {

constexpr auto kHeaderBytes = round_up(sizeof(JobHeader), kPage);

}  // namespace

void provide_pages(int file, std::uint64_t offset, std::size_t bytes) {
  // The kernel would try, and end somebody's process when it fails.
  const auto available = available_memory();
  if (bytes > available) {
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("shared memory: {} bytes are asked for, {} are available", bytes, available),
        "use fewer or smaller buffers, or a machine with more memory");
  }
  // In pieces: a signal makes the kernel undo the one that it is at.
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  for (std::size_t done = 0; done < bytes;) {
    const auto length = std::min(kPiece, bytes - done);
    if (::fallocate(file, 0, static_cast<off_t>(offset + done), static_cast<off_t>(length)) == 0) {
      done += length;
    } else if (errno != EINTR) {
      throw io_error(fmt::format("shared memory: {} more bytes", bytes));
    }
  }
}

std::vector<int> all_instances(int count) {
  std::vector<int> instances(static_cast<std::size_t>(count));
  std::iota(instances.begin(), instances.end(), 0);
  return instances;
}

std::shared_ptr<JobMemory> JobMemory::create(const Shape& shape) {
  if (shape.num_instances < 1 || shape.num_instances > kMaxInstances) {
    throw Error(ErrorKind::Unavailable,
                fmt::format("shared memory: expected a job of 1 to {} instances, found {}",
                            kMaxInstances, shape.num_instances));
  }
  UniqueFd file(::memfd_create("lockstep", MFD_CLOEXEC));
  if (!file) throw io_error("shared memory: memfd_create");
  provide_pages(file.get(), 0, kHeaderBytes);
  auto memory = std::make_shared<JobMemory>(std::move(file));
  auto& header = memory->header();
  header.num_instances = shape.num_instances;
  header.num_local_instances = shape.num_local_instances;
  ::gethostname(header.host.data(), header.host.size() - 1);
  if (!shape.host.empty()) {
    header.host.fill('\0');
    shape.host.copy(header.host.data(), header.host.size() - 1);
  }
  header.end.store(kHeaderBytes);
  return memory;
}

JobMemory::JobMemory(UniqueFd file)
    : file_(std::move(file)),
      header_memory_(file_.get(), 0, kHeaderBytes),
      header_(reinterpret_cast<JobHeader*>(header_memory_.data())) {}

void JobMemory::introduce(int instance, int process) noexcept {
  auto& slot = header_->instances[static_cast<std::size_t>(instance)];
  slot.process = process;
  slot.presence.store(Presence::Present, std::memory_order_release);
}

std::vector<int> JobMemory::introduced() const {
  std::vector<int> found;
  for (int i = 0; i < header_->num_instances; ++i) {
    const auto& slot = header_->instances[static_cast<std::size_t>(i)];
    if (slot.presence.load(std::memory_order_acquire) != Presence::Absent) found.push_back(i);
  }
  return found;
}

std::uint64_t JobMemory::reserve(std::size_t bytes) {
  bytes = round_up(bytes, kPage);
  const auto offset = header_->end.fetch_add(bytes);
  provide_pages(file_.get(), offset, bytes);
  return offset;
}

SharedMemory JobMemory::map(std::uint64_t offset, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& piece = mapped_[offset];
  if (piece.data() == nullptr) piece = SharedMemory(file_.get(), offset, bytes);
  return piece;
}

}  // namespace lockstep::comm::host
