#include "lockstep/train/fields.h"

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

const at::Tensor& Fields::front() const {
  if (!tensors_.empty()) return tensors_.front().second;
  throw Error(ErrorKind::Options, "fields: expected at least one, found none");
}

}  // namespace lockstep
