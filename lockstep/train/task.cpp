#include "lockstep/train/task.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

at::Tensor classes_of(const Fields& fields, const std::string& name) {
  const auto& values = fields[name];
  if (at::isIntegralType(values.scalar_type(), /*includeBool=*/false)) {
    return values.to(at::kLong);
  }
  throw Error(ErrorKind::Options,
              fmt::format("cross-entropy: expected whole numbers in the field '{}', found {}", name,
                          c10::toString(values.scalar_type())),
              "name the field that holds the classes, or choose another loss");
}

}  // namespace

Input input_field(std::string name) {
  return [name = std::move(name)](const Fields& fields) { return fields[name]; };
}

Loss cross_entropy(std::string field, double smoothing) {
  if (!(smoothing >= 0 && smoothing < 1)) {
    throw Error(ErrorKind::Options,
                fmt::format("cross-entropy: expected a smoothing of at least 0 and below 1, "
                            "found {}",
                            smoothing));
  }
  return [field = std::move(field), smoothing](const at::Tensor& output, const Fields& fields) {
    return at::cross_entropy_loss(output, classes_of(fields, field), {}, at::Reduction::Mean, -100,
                                  smoothing);
  };
}

Loss mean_squared_error(std::string field) {
  return [field = std::move(field)](const at::Tensor& output, const Fields& fields) {
    const auto& target = fields[field];
    if (output.sizes() == target.sizes()) return at::mse_loss(output, target);
    throw Error(ErrorKind::Options,
                fmt::format("mean squared error: expected outputs of the shape of '{}', {}, "
                            "found {}",
                            field, c10::str(target.sizes()), c10::str(output.sizes())));
  };
}

Metric accuracy(std::string field) {
  return {.name = "acc",
          .sum =
              [field = std::move(field)](const at::Tensor& output, const Fields& fields) {
                const auto found = output.argmax(1);
                const auto truth = classes_of(fields, field);
                if (found.sizes() == truth.sizes()) {
                  return found.eq(truth).sum().to(at::kDouble) * found.size(0) / found.numel();
                }
                throw Error(ErrorKind::Options,
                            fmt::format("accuracy: expected outputs [N, classes, …] for '{}' {}, "
                                        "found {}",
                                        field, c10::str(truth.sizes()), c10::str(output.sizes())));
              },
          .scale = 100};
}

}  // namespace lockstep
