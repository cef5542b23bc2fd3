#include "lockstep/data/loader/batch_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Bytes of a column, up to the next cache line.
std::size_t column_bytes(std::size_t samples, std::size_t bytes) {
  constexpr auto kMost = std::size_t{1} << 48;
  if (samples > kMost / std::max<std::size_t>(bytes, 1)) {
    throw Error(ErrorKind::Options,
                fmt::format("loader: a batch of {} samples with {} bytes each is out of range",
                            samples, bytes));
  }
  return (samples * bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace

std::shared_ptr<std::byte> allocate_pages(std::size_t bytes) {
  auto* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::Unavailable,
                fmt::format("loader: {} bytes of memory were expected for a batch: {}", bytes,
                            std::strerror(errno)),
                "lower the batch size or the number of buffers");
  }
  if (bytes >= kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);  // only for speed
  return {static_cast<std::byte*>(memory), [bytes](std::byte* data) { ::munmap(data, bytes); }};
}

BatchMemory::BatchMemory(const std::vector<Field>& fields, std::int64_t samples,
                         const AllocateMemory& allocate) {
  const auto count = static_cast<std::size_t>(samples);
  std::size_t bytes = 0;
  for (const auto& field : fields) {
    bytes += column_bytes(count, bytes_of(field));
    if (field.kind == FieldKind::Varying) bytes += column_bytes(count, sizeof(std::int64_t));
  }
  memory_ = allocate(bytes);
  if (memory_ == nullptr || reinterpret_cast<std::uintptr_t>(memory_.get()) % kCacheLine != 0) {
    throw Error(ErrorKind::Options,
                fmt::format("loader: expected memory of {} bytes that begins at a multiple of {}, "
                            "found address {}",
                            bytes, kCacheLine, fmt::ptr(memory_.get())));
  }

  auto* next = memory_.get();
  for (const auto& field : fields) {
    auto& column = columns_.emplace_back(Column{.data = next, .bytes = bytes_of(field)});
    next += column_bytes(count, column.bytes);
    if (field.kind != FieldKind::Varying) continue;
    column.lengths = reinterpret_cast<std::int64_t*>(next);
    next += column_bytes(count, sizeof(std::int64_t));
  }
}

}  // namespace lockstep::data
