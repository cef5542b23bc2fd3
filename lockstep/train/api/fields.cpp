#include "lockstep/train/api/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

auto find(auto& tensors, std::string_view name) {
  return std::find_if(tensors.begin(), tensors.end(),
                      [&](const auto& entry) { return entry.first == name; });
}

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

}  // namespace lockstep
