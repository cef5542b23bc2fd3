#include "lockstep/nn/random/random_scope.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "lockstep/gpu/layers/draw_mask.h"
#include "lockstep/nn/random/routed_operations.h"

namespace lockstep::nn {
namespace {

// Layers are called with a tensor and nothing else, so who they draw for is known by the thread.
thread_local RandomScope* innermost = nullptr;

std::uint64_t key_of(const DrawKey& key) noexcept {
  return gpu::key_of_micro_batch(key.seed, key.step, key.replica, key.micro_batch);
}

}  // namespace

RandomScope::RandomScope(const DrawKey& key, std::uint32_t block)
    : outer_(innermost), key_of_micro_batch_(key_of(key)), block_(block) {
  route_random_operations();
  innermost = this;
}

RandomScope::RandomScope(const gpu::GroupKeys* keys)
    : outer_(innermost), groups_(std::make_unique<const gpu::GroupKeys>(*keys)) {
  route_random_operations();
  innermost = this;
}

RandomScope::~RandomScope() {
  innermost = outer_;
  if (outer_ == nullptr) unroute_random_operations();
}

RandomScope* RandomScope::current() noexcept {
  return innermost;
}

void RandomScope::enter_block(std::uint32_t block) noexcept {
  block_ = block;
  calls_ = 0;
}

RandomStream RandomScope::next_call() noexcept {
  return gpu::stream_of_call(key_of_micro_batch_, {block_, calls_++});
}

gpu::DrawPlace RandomScope::next_place() noexcept {
  return {block_, calls_++};
}

RandomStream next_random_stream() {
  if (innermost != nullptr) return innermost->next_call();
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return RandomStream(at::check_generator<at::CPUGeneratorImpl>(generator)->random64());
}

}  // namespace lockstep::nn
