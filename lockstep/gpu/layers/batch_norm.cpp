#include "lockstep/gpu/layers/batch_norm.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <bit>
#include <initializer_list>

#include "lockstep/base/error.h"
#include "lockstep/gpu/check.h"
#include "lockstep/gpu/layers/batch_norm_groups.h"
#include "lockstep/gpu/layers/batch_norm_paths.h"
#include "lockstep/gpu/layers/batch_norm_resident.h"
#include "lockstep/gpu/layers/batch_norm_streaming.h"

namespace lockstep::gpu {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::Options, "batch norm: " + what);
}

void check_shape(const NormShape& shape) {
  // Kernels count rows, and numbers from one of a thread's rows to the next, in 32 bits.
  constexpr std::int64_t kMostRows = std::int64_t{1} << 30;
  constexpr std::int64_t kMostChannels = std::int64_t{1} << 20;
  if (shape.groups < 1 || shape.rows < 1 || shape.channels < 1) {
    refuse(fmt::format("expected at least one group, row and channel, got {} x {} x {}",
                       shape.groups, shape.rows, shape.channels));
  }
  if (shape.rows > kMostRows || shape.channels > kMostChannels) {
    refuse(fmt::format("{} x {} rows and channels are more than the {} x {} that kernels count",
                       shape.rows, shape.channels, kMostRows, kMostChannels));
  }
  if (shape.type != DataType::F32 && shape.type != DataType::F16 && shape.type != DataType::BF16) {
    refuse(fmt::format("expected f32, f16 or bf16, got {}", name_of(shape.type)));
  }
}

void check_chains(const NormShape& shape, const NormRunning& running) {
  if (running.mean == nullptr) return;
  if (running.chains >= 1 && shape.groups % running.chains == 0) return;
  refuse(fmt::format("{} groups cannot be divided into {} chains", shape.groups, running.chains));
}

void check_gate(const NormBackward& call) {
  if (call.activation == NormActivation::None) return;
  if (call.residual_gradient == nullptr || call.y != nullptr || call.marks != nullptr) return;
  refuse("where a residual was added before the ReLU, its gradient takes y or marks");
}

bool are_aligned(std::initializer_list<const void*> pointers) {
  for (const auto* pointer : pointers) {
    if (std::bit_cast<std::uintptr_t>(pointer) % kPacketBytes != 0) return false;
  }
  return true;
}

bool is_wide(const NormForward& call) {
  return has_wide_rows(call.shape) && are_aligned({call.x, call.residual, call.y});
}

bool is_wide(const NormBackward& call) {
  return has_wide_rows(call.shape) &&
         are_aligned({call.x, call.y, call.dy, call.second_dy, call.dx, call.residual_gradient});
}

bool is_wide(const NormEvaluation& call) {
  return has_wide_rows(call.shape) && are_aligned({call.x, call.residual, call.y});
}

template <typename Call>
Packets packets_of(const Call& call) {
  return is_wide(call) ? Packets::Wide : Packets::Single;
}

void check_marks(const NormForward& call) {
  if (call.marks == nullptr || (call.residual != nullptr && is_wide(call))) return;
  refuse("marks take a residual, and rows that begin at 16 bytes");
}

void check_path(const NormPath& path, bool is_wide_call) {
  if (path.kind == NormPathKind::Streaming || is_wide_call) return;
  refuse(fmt::format("the path '{}' takes rows that begin at 16 bytes", to_string(path)));
}

/// The workspace: two arrays [groups, channels], then sums of parts.
struct Workspace {
  Workspace(const NormShape& shape, void* memory)
      : first(static_cast<float*>(memory)),
        second(first + shape.groups * shape.channels),
        partials(second + shape.groups * shape.channels) {}
  float* first;
  float* second;
  float* partials;
};

template <typename Function>
void with_type(DataType type, const Function& function) {
  if (type == DataType::F32) return function(float{});
  if (type == DataType::F16) return function(Float16{});
  function(BFloat16{});
}

}  // namespace

NormChip norm_chip() {
  NormChip chip;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  // Single attributes are remembered by the driver: asking costs nothing.
  check(cudaDeviceGetAttribute(&chip.compute_major, cudaDevAttrComputeCapabilityMajor, device),
        "compute capability");
  check(cudaDeviceGetAttribute(&chip.multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "multiprocessors");
  return chip;
}

NormPath norm_path_of(const NormForward& call) {
  if (!is_wide(call)) return {};
  return choose_norm_path(call.shape, NormPass::Forward, norm_chip());
}

NormPath norm_path_of(const NormBackward& call) {
  if (!is_wide(call)) return {};
  const bool was_added = call.residual_gradient != nullptr || call.second_dy != nullptr;
  return choose_norm_path(call.shape, was_added ? NormPass::BackwardOfSum : NormPass::Backward,
                          norm_chip());
}

std::size_t norm_workspace_bytes(const NormShape& shape) {
  check_shape(shape);
  return sizeof(float) *
         static_cast<std::size_t>(2 * shape.groups * shape.channels + streaming_partials(shape));
}

std::size_t norm_mark_bytes(const NormForward& call) {
  check_shape(call.shape);
  if (call.residual == nullptr || !is_wide(call)) return 0;
  const auto numbers = call.shape.groups * call.shape.rows * call.shape.channels;
  return static_cast<std::size_t>(numbers) * size_of(call.shape.type) / kPacketBytes;
}

void norm_forward(const NormForward& call, const NormPath& path, Stream stream) {
  check_shape(call.shape);
  check_marks(call);
  check_chains(call.shape, call.running);
  check_path(path, is_wide(call));
  const Workspace workspace(call.shape, call.workspace);
  float* variance = workspace.first;
  with_type(call.shape.type, [&](auto type) {
    using T = decltype(type);
    if (path.kind == NormPathKind::Resident) {
      resident_forward<T>(call, path, variance, stream);
    } else {
      streaming_forward<T>(call, packets_of(call), variance, workspace.partials, stream);
    }
  });
  if (call.running.mean == nullptr) return;
  move_running(call.shape, call.running, call.statistics.mean, variance, stream);
}

void norm_backward(const NormBackward& call, const NormPath& path, Stream stream) {
  check_shape(call.shape);
  check_gate(call);
  check_path(path, is_wide(call));
  const Workspace workspace(call.shape, call.workspace);
  float* weight_sums = workspace.first;
  float* bias_sums = workspace.second;
  with_type(call.shape.type, [&](auto type) {
    using T = decltype(type);
    if (path.kind == NormPathKind::Resident) {
      resident_backward<T>(call, path, weight_sums, bias_sums, stream);
    } else {
      streaming_backward<T>(call, packets_of(call), weight_sums, bias_sums, workspace.partials,
                            stream);
    }
  });
  if (call.weight_gradient == nullptr && call.bias_gradient == nullptr) return;
  add_groups(call.shape, weight_sums, bias_sums, call.weight_gradient, call.bias_gradient, stream);
}

void norm_forward(const NormForward& call, Stream stream) {
  check_shape(call.shape);
  norm_forward(call, norm_path_of(call), stream);
}

void norm_backward(const NormBackward& call, Stream stream) {
  check_shape(call.shape);
  norm_backward(call, norm_path_of(call), stream);
}

void norm_evaluate(const NormEvaluation& call, Stream stream) {
  check_shape(call.shape);
  with_type(call.shape.type,
            [&](auto type) { streaming_evaluate<decltype(type)>(call, packets_of(call), stream); });
}

}  // namespace lockstep::gpu
