#include "lockstep/train/backends/cuda/gpu_errors.h"

#include <fmt/format.h>

#include "lockstep/nn/torch_errors.h"

namespace lockstep::train {
namespace {

std::string replicas_text(const topology::ReplicaRange& replicas) {
  const int last = replicas.first + replicas.count - 1;
  return replicas.count == 1 ? fmt::format("replica {}", last)
                             : fmt::format("replicas {} to {}", replicas.first, last);
}

std::string text_of(const GpuSite& site) {
  const auto step = site.step ? fmt::format(", step {}", *site.step + 1) : std::string();
  return fmt::format("GPU {}, {}{}", site.device, replicas_text(site.replicas), step);
}

std::string hint_for_memory(const GpuSite& site) {
  return site.fuse == Fuse::Off ? "a lower --batch-size, or --precision 16.16"
                                : "--fuse off, a lower --batch-size or fewer --device-iterations";
}

std::string first_line(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

bool begins_with_cuda(const std::string& line) {
  return line.starts_with("CUDA") || line.starts_with("cuDNN") || line.starts_with("cuBLAS");
}

}  // namespace

Error gpu_error(const GpuSite& site, const c10::Error& error) {
  const auto line = first_line(error);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return {ErrorKind::Unavailable, fmt::format("{}: {}", text_of(site), line),
            hint_for_memory(site)};
  }
  if (begins_with_cuda(line)) {
    return {ErrorKind::Bug, fmt::format("{}: {}", text_of(site), line),
            "run once more with CUDA_LAUNCH_BLOCKING=1: it then fails where the mistake is"};
  }
  return nn::torch_error(text_of(site), error);
}

/// What a user has to set otherwise says so itself.
Error gpu_error(const GpuSite& site, const Error& error) {
  const auto message = fmt::format("{}: {}", text_of(site), error.what());
  if (error.kind() == ErrorKind::Unavailable) return {error.kind(), message, hint_for_memory(site)};
  if (error.kind() == ErrorKind::Bug) return {error.kind(), message, error.hint()};
  return error;
}

}  // namespace lockstep::train
