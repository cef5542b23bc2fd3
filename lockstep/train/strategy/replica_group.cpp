#include "lockstep/train/strategy/replica_group.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/torch_errors.h"

namespace lockstep::train {
namespace {

/// Functions of users compute with tensors of theirs, which are in the host's memory.
JobLayout lay_out_on_cpu(const Options& options) {
  if (options.device() != DeviceKind::Cpu) {
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("Strategy: expected the device cpu, found {}", name_of(options.device())),
        "train on GPUs with TrainingModel or Trainer, made from the same options");
  }
  return lay_out(options);
}

}  // namespace

ReplicaGroup::ReplicaGroup(const Options& options)
    : options_(options),
      layout_(lay_out_on_cpu(options_)),
      threads_(layout_.num_devices,
               [threads = layout_.threads_per_device] { nn::use_compute_threads(threads); }) {}

void ReplicaGroup::run(const std::function<void(const ReplicaContext&)>& work) {
  const auto number = runs_++;
  const auto run_on = [&](int device) {
    for (int local = 0; local < layout_.local.count; ++local) {
      if (layout_.device_of[static_cast<std::size_t>(local)].front() != device) continue;
      const int replica = layout_.local.first + local;
      const nn::RandomScope scope({.seed = options_.seed(),
                                   .step = number,
                                   .replica = static_cast<std::uint32_t>(replica)});
      nn::with_torch_errors(fmt::format("Strategy::run: replica {}", replica), [&] {
        work({replica, local, layout_.replicas});
      });
    }
  };
  guarded("Strategy::run", [&] { threads_.run(run_on); });
}

void ReplicaGroup::run_alone(const std::function<void()>& work) {
  threads_.run([&](int device) {
    if (device == 0) work();
  });
}

void ReplicaGroup::reduce(std::span<const comm::ConstBuffer> leaves, const comm::Buffer& result,
                          comm::ReduceOp op) {
  options_.world().communicator().all_reduce_leaves(leaves, result, op);
}

void ReplicaGroup::broadcast(const comm::Buffer& buffer) {
  options_.world().broadcast(buffer, 0);
}

nn::DrawKey ReplicaGroup::next_module_key() noexcept {
  auto key = nn::making_key(options_.seed());
  key.micro_batch = modules_++;
  return key;
}

void ReplicaGroup::guarded(const char* where, const std::function<void()>& action) {
  auto& communicator = options_.world().communicator();
  try {
    nn::with_torch_errors(where, action);
  } catch (const Error& error) {
    communicator.report_failure(error);
    throw;
  } catch (const std::exception& error) {
    communicator.report_failure(
        Error(ErrorKind::PeerLost, fmt::format("{}: {}", where, error.what())));
    throw;
  }
}

}  // namespace lockstep::train
