#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep {

/// The named fields of some samples as tensors [samples, …]: what a loss and metrics look at.
class LOCKSTEP_API Fields {
 public:
  void set(std::string name, at::Tensor tensor);

  /// Throws `Options`, with the names that there are, for another one.
  const at::Tensor& operator[](std::string_view name) const;
  bool has(std::string_view name) const noexcept;
  /// The first of them, as a data set declares them.
  const at::Tensor& front() const;
  /// Some of the samples.
  Fields part(std::int64_t first, std::int64_t count) const;
  /// With another tensor in the place of one.
  Fields with(std::string_view name, at::Tensor tensor) const;
  /// Others of the same names.
  Fields mapped(const std::function<at::Tensor(const at::Tensor&)>& change) const;
  /// Samples.
  std::int64_t size() const { return front().size(0); }

 private:
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
};

}  // namespace lockstep
