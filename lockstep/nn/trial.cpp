#include "lockstep/nn/trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/torch_errors.h"

namespace lockstep::nn {
namespace {

void check_logits(const at::Tensor& logits, std::int64_t samples) {
  if (logits.dim() != 2 || logits.size(0) != samples || !logits.is_floating_point()) {
    throw Error(ErrorKind::Options,
                fmt::format("model: expected logits [{}, classes] for {} pictures, found {} [{}]",
                            samples, samples, c10::toString(logits.scalar_type()),
                            fmt::join(logits.sizes().vec(), ", ")));
  }
  if (!logits.requires_grad()) {
    throw Error(ErrorKind::Options,
                "model: its output does not depend on any parameter in a way that can be derived",
                "look for torch.no_grad(), detach() or parameters without requires_grad");
  }
}

}  // namespace

std::int64_t try_step(const Model& model, const std::vector<std::int64_t>& pictures) {
  return with_torch_errors("model", [&] {
    const RandomScope scope(making_key(0));
    const auto copy = model.clone();
    copy->set_mode(Mode::Train);
    const auto logits = copy->forward(at::randn(pictures));
    check_logits(logits, pictures.front());
    logits.sum().backward();
    return logits.size(1);
  });
}

}  // namespace lockstep::nn
