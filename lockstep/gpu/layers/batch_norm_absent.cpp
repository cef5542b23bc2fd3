#include "lockstep/gpu/absent.h"
#include "lockstep/gpu/layers/batch_norm_paths.h"

namespace lockstep::gpu {
namespace {

constexpr auto kWhat = "batch norm on a GPU";

}  // namespace

std::size_t norm_workspace_bytes(const NormShape&) {
  refuse_without_cuda(kWhat);
}

std::size_t norm_mark_bytes(const NormForward&) {
  refuse_without_cuda(kWhat);
}

void norm_forward(const NormForward&, Stream) {
  refuse_without_cuda(kWhat);
}

void norm_backward(const NormBackward&, Stream) {
  refuse_without_cuda(kWhat);
}

void norm_evaluate(const NormEvaluation&, Stream) {
  refuse_without_cuda(kWhat);
}

NormChip norm_chip() {
  refuse_without_cuda(kWhat);
}

NormPath norm_path_of(const NormForward&) {
  refuse_without_cuda(kWhat);
}

NormPath norm_path_of(const NormBackward&) {
  refuse_without_cuda(kWhat);
}

void norm_forward(const NormForward&, const NormPath&, Stream) {
  refuse_without_cuda(kWhat);
}

void norm_backward(const NormBackward&, const NormPath&, Stream) {
  refuse_without_cuda(kWhat);
}

}  // namespace lockstep::gpu
