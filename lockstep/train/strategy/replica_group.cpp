#include "lockstep/train/strategy/replica_group.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/scalar_types.h"
#include "lockstep/nn/torch_errors.h"

namespace lockstep::train {
namespace {

std::string type_and_shape(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()), c10::str(tensor.sizes()));
}

/// The functions of a program compute with its tensors, which are in the memory of the host.
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
  nn::with_torch_errors(where, action,
                        [&](const Error& error) { communicator.report_failure(error); });
}

void check_numbers(const char* where, const at::Tensor& tensor) {
  constexpr std::array kTypes{at::kHalf, at::kBFloat16, at::kFloat, at::kDouble,
                              at::kInt,  at::kLong,     at::kByte};
  const bool is_known =
      tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
      std::find(kTypes.begin(), kTypes.end(), tensor.scalar_type()) != kTypes.end();
  if (is_known) return;
  throw Error(
      ErrorKind::Options,
      fmt::format("{}: expected a dense tensor of numbers in the host's memory, found {}{}", where,
                  type_and_shape(tensor), tensor.defined() ? " on " + tensor.device().str() : ""),
      "tensor.to(torch::kCPU, torch::kFloat)");
}

void check_mean(const char* where, comm::ReduceOp op, DataType type) {
  const bool is_whole = type == DataType::I32 || type == DataType::I64 || type == DataType::U8;
  if (op != comm::ReduceOp::Mean || !is_whole) return;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected floating-point numbers for a mean, found {}, which would "
                          "round it",
                          where, name_of(type)),
              "reduce with Sum, or make it a double");
}

at::Tensor reduce_tensors(const char* where, ReplicaGroup& group, comm::ReduceOp op,
                          const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> dense;
  std::vector<comm::ConstBuffer> leaves;
  for (const auto& value : values) {
    check_numbers(where, value);
    if (type_and_shape(value) != type_and_shape(values.front())) {
      throw Error(
          ErrorKind::Options,
          fmt::format("{}: expected {} of every replica, as of replica {}, found {} of "
                      "replica {}",
                      where, type_and_shape(values.front()), group.local().first,
                      type_and_shape(value), group.local().first + static_cast<int>(dense.size())),
          "return tensors of one type and shape from every replica");
    }
    dense.push_back(value.detach().contiguous());
    leaves.emplace_back(dense.back().data_ptr(), dense.back().numel(),
                        nn::data_type_of(value.scalar_type()), "reduce");
  }
  check_mean(where, op, leaves.front().type);
  auto result = at::empty_like(dense.front());
  group.reduce(leaves, {result.data_ptr(), result.numel(), leaves.front().type, "reduce"}, op);
  return result;
}

}  // namespace lockstep::train
