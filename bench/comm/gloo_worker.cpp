// A process that `lockstep bench comm --against gloo` measures: Gloo's default algorithms over TCP
// on this host, as torch.distributed uses them.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <vector>

#include "bench/comm/worker.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace {

using lockstep::bench::Collectives;

std::shared_ptr<gloo::Context> connect(const std::string& folder) {
  using lockstep::topology::Environment;
  const auto identity = lockstep::topology::read_identity(Environment::of_this_process());
  auto context =
      std::make_shared<gloo::rendezvous::Context>(identity.instance, identity.num_instances);
  gloo::rendezvous::FileStore store(folder);
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  context->connectFullMesh(store, device);
  return context;
}

class GlooCollectives final : public Collectives {
 public:
  explicit GlooCollectives(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  void all_reduce(std::span<float> values) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    // Written out, because the function has overloads.
    void (*const sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<float>;
    options.setReduceFunction(sum);
    gloo::allreduce(options);
  }

  /// Gloo has this only as an object that is bound to a buffer; it works in place, and leaves the
  /// result at the beginning. Setting it up is not a part of what users repeat, nor of the time.
  std::span<const float> reduce_scatter(std::span<float> blocks, std::span<float> block) override {
    if (!reduce_scatter_ || bound_to_.data() != blocks.data() ||
        bound_to_.size() != blocks.size()) {
      const std::vector<int> counts(static_cast<std::size_t>(size()),
                                    static_cast<int>(block.size()));
      reduce_scatter_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_, std::vector<float*>{blocks.data()}, static_cast<int>(blocks.size()), counts);
      bound_to_ = blocks;
    }
    reduce_scatter_->run();
    return blocks.first(block.size());
  }

  void all_gather(std::span<const float> block, std::span<float> blocks) override {
    gloo::AllgatherOptions options(context_);
    options.setInput(const_cast<float*>(block.data()), block.size());
    options.setOutput(blocks.data(), blocks.size());
    gloo::allgather(options);
  }

  void broadcast(std::span<float> values) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setRoot(0);
    gloo::broadcast(options);
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> reduce_scatter_;
  std::span<float> bound_to_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
  return lockstep::bench::worker_main(arguments, [](const std::string& folder) {
    GlooCollectives system(connect(folder));
    lockstep::bench::serve(system, folder);
  });
}
