#include "lockstep/train/backends/gpu/host_sum_gpu_backend.h"

#include <algorithm>

namespace lockstep::train {

HostSumGpuBackend::HostSumGpuBackend(const BackendContext& context)
    : HostBackend(context), session_(context, GpuSession::StateSource::Host) {
  times_.push_back({.spans = session_.spans()});
}

void HostSumGpuBackend::compute_leaves(std::int64_t) {
  auto& times = times_.front();
  auto& gpu = session_.gpu();
  Stopwatch watch;
  gpu.refresh(context_.state.current());
  gpu.set_loss_scale(before().loss_scale, before().good_steps);
  times.reduce += watch.lap();
  take_batches();
  times.data += watch.lap();
  const auto& local = context_.layout().local;
  for (int replica = local.first; replica < local.first + local.count; ++replica) {
    const events::TimedScope span(session_.spans(), events::SpanKind::Launch, number());
    compute_leaf(replica);
    context_.communicator().heartbeat("computing");
  }
  gpu.release();
  times.compute += watch.lap();
}

void HostSumGpuBackend::take_batches() {
  const events::TimedWait wait(session_.spans(), number());
  const auto& local = context_.layout().local;
  for (int replica = local.first; replica < local.first + local.count; ++replica) {
    for (std::int64_t k = 0; k < context_.setup.options.gradient_accumulation(); ++k) {
      session_.gpu().take(0, next_batch(replica));
    }
  }
}

void HostSumGpuBackend::compute_leaf(int replica) {
  const auto& layout = context_.state.totals();
  const auto to = leaf();
  const auto totals = to.last(layout.count());
  std::ranges::fill(totals, 0.0F);
  const auto found = session_.gpu().make_leaf(
      replica, before().steps, to.first(to.size() - totals.size()), layout.changed(totals));
  const auto place = static_cast<std::size_t>(replica);
  layout.losses(totals)[place] = found.losses[place];
  std::ranges::copy(found.metrics, layout.metrics(totals).begin());
  const auto hash = integer_hash();
  std::ranges::copy(hash, layout.hash(totals).begin());
  write_requests(totals);
  context_.state.sum().take_leaf();
}

std::array<float, LeafTotals::kHashBytes> HostSumGpuBackend::integer_hash() const {
  const auto bytes = static_cast<std::size_t>(context_.state.weights().integer_bytes);
  if (bytes == 0) return {};
  std::vector<std::byte> integers(bytes);
  session_.gpu().copy_integers(integers.data());
  return hash_of_integers(integers);
}

void HostSumGpuBackend::check_integers(std::span<const float> hash_sums) const {
  check_integers_agree(context_.state.weights(), hash_sums, integer_hash(),
                       context_.layout().replicas);
}

}  // namespace lockstep::train
