#include "lockstep/data/loader/batch_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
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
  const auto lengths_bytes = [&](const Field& field) {
    return field.kind == FieldKind::Varying ? aligned(count * sizeof(std::int64_t)) : 0;
  };
  std::size_t bytes = 0;
  for (const auto& field : fields) bytes += aligned(count * bytes_of(field)) + lengths_bytes(field);
  memory_ = allocate(bytes);

  auto* next = memory_.get();
  for (const auto& field : fields) {
    auto& column = columns_.emplace_back(Column{.data = next, .bytes = bytes_of(field)});
    next += aligned(count * column.bytes);
    if (field.kind != FieldKind::Varying) continue;
    column.lengths = reinterpret_cast<std::int64_t*>(next);
    next += lengths_bytes(field);
  }
}

}  // namespace lockstep::data
