#include "lockstep/comm/host/job_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::comm::host {
namespace {

constexpr auto kHeaderBytes = round_up(sizeof(JobHeader), kPage);

std::optional<std::uint64_t> number_in(const std::string& path, std::string_view after) {
  try {
    const auto text = read_file(path);
    const auto found = text.find(after);
    if (found == std::string::npos) return std::nullopt;
    const std::string_view rest = std::string_view(text).substr(found + after.size());
    const auto begin = rest.find_first_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    const auto number =
        parse_integer(rest.substr(begin, rest.find_first_not_of("0123456789", begin) - begin));
    return number ? std::optional<std::uint64_t>(*number) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// What this machine, or the container that we are in, can still give.
std::uint64_t available_memory() {
  auto available = std::numeric_limits<std::uint64_t>::max();
  if (const auto kib = number_in("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  const auto limit = number_in("/sys/fs/cgroup/memory.max", "");
  const auto used = number_in("/sys/fs/cgroup/memory.current", "");
  if (limit && used) available = std::min(available, *limit - std::min(*limit, *used));
  return available;
}

void provide_pages(int file, std::uint64_t offset, std::size_t bytes) {
  // The kernel would try, and end somebody's process when it fails.
  const auto available = available_memory();
  if (bytes > available) {
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("shared memory: {} bytes are asked for, {} are available", bytes, available),
        "use fewer or smaller buffers, or a machine with more memory");
  }
  int result = 0;
  do {
    result = ::fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) throw io_error(fmt::format("shared memory: {} more bytes", bytes));
}

}  // namespace

std::shared_ptr<JobMemory> JobMemory::create(int num_instances) {
  UniqueFd file(::memfd_create("lockstep", MFD_CLOEXEC));
  if (!file) throw io_error("shared memory: memfd_create");
  provide_pages(file.get(), 0, kHeaderBytes);
  auto memory = std::make_shared<JobMemory>(std::move(file));
  auto& header = memory->header();
  header.num_instances = num_instances;
  ::gethostname(header.host.data(), header.host.size() - 1);
  header.end.store(kHeaderBytes);
  return memory;
}

JobMemory::JobMemory(UniqueFd file)
    : file_(std::move(file)),
      header_memory_(file_.get(), 0, kHeaderBytes),
      header_(reinterpret_cast<JobHeader*>(header_memory_.data())) {}

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
