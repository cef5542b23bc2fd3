#pragma once

#include <memory>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/train/backends/batch_source.h"
#include "lockstep/train/backends/training_backend.h"
#include "lockstep/train/engine/step_backend.h"

namespace lockstep::train {

/// Times of one device in one step, in seconds.
struct DeviceTimes {
  double data = 0;  ///< waiting for batches
  double compute = 0;
  double reduce = 0;
  std::vector<StageCounters> stages{};
  events::SpanSink* spans = nullptr;  ///< receives the spans of the device's thread
};

/// The part of a backend that sums the leaves and updates the state in the memory of the host. The
/// derived classes compute the leaves.
class HostBackend : public TrainingBackend, protected StepBackend {
 public:
  explicit HostBackend(const BackendContext& context);

  void store_state() override {}
  const std::byte* read_state() override { return context_.state.current(); }
  const std::byte* copy_state() override { return context_.state.current(); }
  const Progress& progress() const override { return context_.state.progress(); }
  void begin(const DataLoader::Iteration& iteration, std::int64_t first_step) override;
  std::vector<StepOutput> run() override;

 protected:
  /// Throws `Options` if integer buffers differ between the replicas of the job.
  virtual void check_integers(std::span<const float> hash_sums) const = 0;
  /// Writes the integer buffers as they are after this step.
  virtual void copy_integers(std::byte* to) const = 0;

  /// Writes the requests of this instance into its last leaf of a step.
  void write_requests(std::span<float> totals);
  /// The next batch of a replica. Errors: `Bug` if the epoch ends too early.
  data::Batch next_batch(int replica, events::SpanSink* spans = nullptr);
  /// Memory of the next leaf.
  std::span<float> leaf();
  const Progress& before() const noexcept { return before_; }
  std::int64_t number() const noexcept { return before_.steps + 1; }
  events::SpanSink* update_spans() const noexcept { return spans_; }

  const BackendContext context_;
  std::vector<DeviceTimes> times_;  ///< of this step, by device; the derived class adds its times
  std::unique_ptr<BatchSource> source_;
  const DataLoader* loader_ = nullptr;

 private:
  void reduce(std::int64_t index) final;
  void check(std::int64_t index) final;
  void measure_gradients(std::int64_t index) final;
  void decide(std::int64_t /*index*/) final {
    decision_ = update_.decide(sum_.measured(), sum_.totals());
  }
  void measure_trust(std::int64_t index) final;
  void update(std::int64_t index) final;
  void commit(std::int64_t /*index*/) final { sum_.commit(); }
  void report(std::int64_t index) final;

  UpdateInput update_input() const;
  void write_rest_of_next_version();
  void record_times(double seconds);

  comm::ShardedUpdate& sum_;
  const WeightUpdate update_;
  events::SpanSink* spans_;  ///< of this thread

  // The step under way:
  Progress before_;
  StepDecision decision_;
  StepOutput output_;
  Stopwatch watch_;  ///< since the leaves are complete
  double waited_seconds_ = 0;
};

}  // namespace lockstep::train
