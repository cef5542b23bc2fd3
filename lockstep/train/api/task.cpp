#include "lockstep/train/api/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

auto find(auto& tensors, std::string_view name) {
  return std::find_if(tensors.begin(), tensors.end(),
                      [&](const auto& entry) { return entry.first == name; });
}

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

/// libtorch does not count samples of this class.
constexpr std::int64_t kIgnored = -100;

}  // namespace

void Fields::set(std::string name, at::Tensor tensor) {
  const auto found = find(tensors_, name);
  if (found == tensors_.end()) {
    tensors_.emplace_back(std::move(name), std::move(tensor));
  } else {
    found->second = std::move(tensor);
  }
}

const at::Tensor& Fields::operator[](std::string_view name) const {
  const auto found = find(tensors_, name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : tensors_) names.push_back(known);
  throw Error(ErrorKind::Options,
              fmt::format("fields: expected one of {}, found '{}'", fmt::join(names, ", "), name));
}

bool Fields::has(std::string_view name) const noexcept {
  return find(tensors_, name) != tensors_.end();
}

Fields Fields::part(std::int64_t first, std::int64_t count) const {
  Fields part;
  for (const auto& [name, tensor] : tensors_) part.set(name, tensor.narrow(0, first, count));
  return part;
}

Fields Fields::with(std::string_view name, at::Tensor tensor) const {
  Fields changed;
  for (const auto& [old_name, old] : tensors_) {
    changed.set(old_name, old_name == name ? std::move(tensor) : old);
  }
  return changed;
}

Fields Fields::mapped(const std::function<at::Tensor(const at::Tensor&)>& change) const {
  Fields mapped;
  for (const auto& [name, tensor] : tensors_) mapped.set(name, change(tensor));
  return mapped;
}

const at::Tensor& Fields::front() const {
  if (!tensors_.empty()) return tensors_.front().second;
  throw Error(ErrorKind::Options, "fields: expected at least one, found none");
}

at::Tensor Loss::of_groups(const at::Tensor& output, const Fields& fields,
                           std::int64_t groups) const {
  if (groups == 1) return mean_(output, fields).reshape({1});
  if (means_) return means_(output, fields, groups);
  const auto samples = output.size(0) / groups;
  std::vector<at::Tensor> losses;
  for (std::int64_t i = 0; i < groups; ++i) {
    const auto loss =
        mean_(output.narrow(0, i * samples, samples), fields.part(i * samples, samples));
    losses.push_back(loss.reshape({}));
  }
  return at::stack(losses);
}

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
  const auto mean = [field, smoothing](const at::Tensor& output, const Fields& fields) {
    return at::cross_entropy_loss(output, classes_of(fields, field), {}, at::Reduction::Mean,
                                  kIgnored, smoothing);
  };
  const auto means = [field, smoothing](const at::Tensor& output, const Fields& fields,
                                        std::int64_t groups) {
    const auto classes = classes_of(fields, field);
    const auto losses =
        at::cross_entropy_loss(output, classes, {}, at::Reduction::None, kIgnored, smoothing);
    const auto counted = classes.ne(kIgnored).reshape({groups, -1}).sum(1);
    return losses.reshape({groups, -1}).sum(1) / counted;
  };
  return {mean, means};
}

Loss mean_squared_error(std::string field) {
  const auto target_for = [field = std::move(field)](const at::Tensor& output,
                                                     const Fields& fields) {
    const auto& target = fields[field];
    if (output.sizes() == target.sizes()) return target;
    throw Error(ErrorKind::Options,
                fmt::format("mean squared error: expected outputs of the shape of '{}', {}, "
                            "found {}",
                            field, c10::str(target.sizes()), c10::str(output.sizes())));
  };
  const auto mean = [target_for](const at::Tensor& output, const Fields& fields) {
    return at::mse_loss(output, target_for(output, fields));
  };
  const auto means = [target_for](const at::Tensor& output, const Fields& fields,
                                  std::int64_t groups) {
    const auto squares = at::mse_loss(output, target_for(output, fields), at::Reduction::None);
    return squares.reshape({groups, -1}).mean(1);
  };
  return {mean, means};
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
