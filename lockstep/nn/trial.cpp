#include "lockstep/nn/trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/random/random_scope.h"

namespace lockstep::nn {
namespace {

constexpr std::int64_t kSamples = 2;

void check_logits(const at::Tensor& logits) {
  if (logits.dim() != 2 || logits.size(0) != kSamples || !logits.is_floating_point()) {
    throw Error(ErrorKind::Options,
                fmt::format("model: expected logits [{}, classes] for {} pictures, found {} [{}]",
                            kSamples, kSamples, c10::toString(logits.scalar_type()),
                            fmt::join(logits.sizes().vec(), ", ")));
  }
  if (!logits.requires_grad()) {
    throw Error(ErrorKind::Options,
                "model: its output does not depend on any parameter in a way that can be derived",
                "look for torch.no_grad(), detach() or parameters without requires_grad");
  }
}

}  // namespace

std::int64_t try_step(const Model& model, const std::vector<std::int64_t>& picture) {
  const RandomScope scope(making_key(0));
  const auto copy = model.clone();
  copy->set_mode(Mode::Train);
  auto shape = picture;
  shape.insert(shape.begin(), kSamples);
  const auto logits = copy->forward(at::randn(shape));
  check_logits(logits);
  logits.sum().backward();
  return logits.size(1);
}

}  // namespace lockstep::nn
