#include "lockstep/nn/memory/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace lockstep::nn {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Smaller ones are malloc's: it keeps them by itself.
constexpr std::size_t kSmallest = std::size_t{32} << 10;
constexpr std::size_t kUnpooled = ~std::size_t{0};

/// Stands before the bytes of each block.
struct alignas(kAlignment) Header {
  std::size_t size_class;
  std::size_t bytes;  ///< that were asked for
};

/// Eight classes for each power of two: kSmallest * (8 + k) / 8 * 2^n.
std::size_t class_of(std::size_t bytes) noexcept {
  const auto units = (std::max(bytes, kSmallest) + kSmallest / 8 - 1) / (kSmallest / 8);  // >= 8
  const auto doublings = static_cast<std::size_t>(std::bit_width(units)) - 4;
  const auto step = std::size_t{1} << doublings;
  const auto rounded = (units + step - 1) / step;  // 8..16
  return doublings * 8 + rounded - 8;
}

std::size_t size_of_class(std::size_t size_class) noexcept {
  return (kSmallest / 8 * (8 + size_class % 8)) << (size_class / 8);
}

/// Header and block, in whole pages.
std::size_t mapped_size(std::size_t size_class) noexcept {
  return (sizeof(Header) + size_of_class(size_class) + kPage - 1) / kPage * kPage;
}

Header* header_of(void* block) noexcept {
  return static_cast<Header*>(block) - 1;
}

void* map(std::size_t bytes) noexcept {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // Fewer faults at first, fewer misses of the translation cache ever after.
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void unmap(void* block) noexcept {
  auto* const header = header_of(block);
  munmap(header, mapped_size(header->size_class));
}

void* take_unpooled(std::size_t bytes) {
  const auto whole = (sizeof(Header) + bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  auto* const header = new (memory) Header{kUnpooled, bytes};
  return header + 1;
}

}  // namespace

void* BlockPool::take(std::size_t bytes) {
  void* const block = bytes < kSmallest ? take_unpooled(bytes) : take_pooled(bytes);
  count_taken(bytes);
  return block;
}

void* BlockPool::take_pooled(std::size_t bytes) {
  if (bytes > (std::size_t{1} << 60)) throw std::bad_alloc();
  const auto size_class = class_of(bytes);
  const std::lock_guard lock(mutex_);
  void* block = take_waiting(size_class);
  if (block == nullptr) block = take_fresh(size_class);
  header_of(block)->bytes = bytes;
  return block;
}

void BlockPool::count_taken(std::size_t bytes) noexcept {
  const auto now = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  auto most = most_bytes_.load(std::memory_order_relaxed);
  while (most < now && !most_bytes_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

void BlockPool::restart_peak() noexcept {
  most_bytes_.store(bytes_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void* BlockPool::take_waiting(std::size_t size_class) {
  auto& blocks = waiting_[size_class];
  if (blocks.empty()) return nullptr;
  void* const block = blocks.back();
  blocks.pop_back();
  use_.waiting -= size_of_class(size_class);
  use_.taken += size_of_class(size_class);
  use_.peak = std::max(use_.peak, use_.taken);
  return block;
}

void* BlockPool::take_fresh(std::size_t size_class) {
  const auto size = size_of_class(size_class);
  const auto peak = std::max(use_.peak, use_.taken + size);
  while (use_.taken + size + use_.waiting > 2 * peak && release_largest()) {
  }
  // Room for its way back, so that giving back cannot fail.
  waiting_[size_class].reserve(waiting_[size_class].capacity() + 1);
  void* memory = map(mapped_size(size_class));
  while (memory == nullptr) {
    if (!release_largest()) throw std::bad_alloc();
    memory = map(mapped_size(size_class));
  }
  ++use_.asked;
  use_.taken += size;
  use_.peak = peak;
  return new (memory) Header{size_class, 0} + 1;
}

void BlockPool::give(void* block) noexcept {
  if (block == nullptr) return;
  const auto [size_class, bytes] = *header_of(block);
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (size_class == kUnpooled) {
    std::free(header_of(block));
    return;
  }
  const std::lock_guard lock(mutex_);
  use_.taken -= size_of_class(size_class);
  use_.waiting += size_of_class(size_class);
  waiting_[size_class].push_back(block);
}

bool BlockPool::release_largest() noexcept {
  const auto blocks = std::find_if(waiting_.rbegin(), waiting_.rend(),
                                   [](const auto& each) { return !each.empty(); });
  if (blocks == waiting_.rend()) return false;
  void* const block = blocks->back();
  blocks->pop_back();
  use_.waiting -= size_of_class(header_of(block)->size_class);
  unmap(block);
  return true;
}

void BlockPool::release() noexcept {
  const std::lock_guard lock(mutex_);
  while (release_largest()) {
  }
}

BlockPool::Use BlockPool::use() const {
  const std::lock_guard lock(mutex_);
  auto use = use_;
  use.bytes = bytes_.load(std::memory_order_relaxed);
  use.most_bytes = most_bytes_.load(std::memory_order_relaxed);
  return use;
}

}  // namespace lockstep::nn
