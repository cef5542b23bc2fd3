#pragma once

#include "lockstep/train/backends/gpu/gpu_session.h"
#include "lockstep/train/backends/host_backend.h"

namespace lockstep::train {

/// Computes replicas on a GPU, one after another, with weights that the host has updated. Used for
/// a custom optimizer, and for several instances whose GPUs do not sum with NCCL: with
/// `--gpu-transport host`, and if instances share a GPU or have no NCCL.
class HostSumGpuBackend final : public HostBackend {
 public:
  explicit HostSumGpuBackend(const BackendContext& context);

  void load_state() override { session_.upload(); }
  void lend_model(const std::function<void(nn::Model&)>& use) override { session_.lend_model(use); }
  void prepare(const Preparation& preparation) override { session_.prepare(preparation); }
  void evaluate(Evaluator& evaluator) override { session_.evaluate(evaluator); }
  at::Tensor predict(const at::Tensor& input, WeightsKind weights) override {
    return session_.predict(input, weights);
  }

 private:
  void compute_leaves(std::int64_t index) override;
  void check_integers(std::span<const float> hash_sums) const override;
  void copy_integers(std::byte* to) const override { session_.gpu().copy_integers(to); }

  void take_batches();
  void compute_leaf(int replica);
  std::array<float, LeafTotals::kHashBytes> integer_hash() const;

  GpuSession session_;
};

}  // namespace lockstep::train
