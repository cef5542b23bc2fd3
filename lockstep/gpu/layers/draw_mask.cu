#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lockstep/base/error.h"
#include "lockstep/gpu/check.h"
#include "lockstep/gpu/layers/draw_mask.h"

namespace lockstep::gpu {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kWords = 4;  // that one draw gives

/// A thread makes four units of one group: as many as a draw has words.
template <typename Number>
__global__ void draw(MaskCall call) {
  const auto group = blockIdx.y;
  const auto draw_number = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const auto first = draw_number * kWords;
  if (first >= call.units) return;
  const auto& keys = call.keys;
  const auto key = key_of_micro_batch(keys.seed, static_cast<std::uint64_t>(*keys.step),
                                      keys.first_replica + group / keys.micro_batches,
                                      keys.first_micro_batch + group % keys.micro_batches);
  const auto words = stream_of_call(key, call.place).words(static_cast<std::uint64_t>(draw_number));
  auto* const to = static_cast<Number*>(call.mask) + group * call.units;
  for (int i = 0; i < kWords && first + i < call.units; ++i) {
    to[first + i] = Number(words[i] < call.limit ? 0.0F : 1.0F);
  }
}

template <typename Number>
void launch(const MaskCall& call, Stream stream) {
  const auto draws = (call.units + kWords - 1) / kWords;
  const dim3 grid(static_cast<unsigned>((draws + kThreads - 1) / kThreads), call.keys.groups);
  draw<Number><<<grid, kThreads, 0, stream>>>(call);
  check_launch("draw_mask");
}

}  // namespace

void draw_mask(const MaskCall& call, Stream stream) {
  if (call.units == 0) return;
  switch (call.type) {
    case DataType::F32:
      return launch<float>(call, stream);
    case DataType::F16:
      return launch<__half>(call, stream);
    case DataType::BF16:
      return launch<__nv_bfloat16>(call, stream);
    default:
      throw Error(ErrorKind::Bug, "draw_mask: expected a mask of f32, fp16 or bf16");
  }
}

}  // namespace lockstep::gpu
