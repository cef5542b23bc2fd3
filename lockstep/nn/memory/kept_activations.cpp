#include "lockstep/nn/memory/kept_activations.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <mutex>

#include "lockstep/nn/memory/block_pool.h"

namespace lockstep::nn {
namespace {

void give_back(void* block) {
  KeptActivations::pool().give(block);
}

/// libtorch's interface to the pool. `allocate` is const in 1.13 and not in 2.x, where `copy_data`
/// is new; so the ones that a version does not know override nothing.
class PoolAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const {
    void* const block = bytes == 0 ? nullptr : KeptActivations::pool().take(bytes);
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DataPtr allocate(std::size_t bytes) { return std::as_const(*this).allocate(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
};

PoolAllocator& allocator() {
  static auto* const one = new PoolAllocator();  // tensors of static objects may outlive all else
  return *one;
}

/// libtorch has one allocator, so the first user installs ours and the last one takes it away.
struct Users {
  std::mutex mutex;
  int count = 0;
  c10::Allocator* before = nullptr;
};

Users& users() {
  static auto* const one = new Users();
  return *one;
}

}  // namespace

BlockPool& KeptActivations::pool() noexcept {
  static auto* const one = new BlockPool();
  return *one;
}

KeptActivations::KeptActivations() {
  const std::lock_guard lock(users().mutex);
  if (users().count++ > 0) return;
  users().before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&allocator());
}

KeptActivations::~KeptActivations() {
  const std::lock_guard lock(users().mutex);
  if (--users().count == 0) c10::SetCPUAllocator(users().before);
}

}  // namespace lockstep::nn
