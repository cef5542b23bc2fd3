#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// The named fields of some samples as tensors [samples, …]: what a loss and metrics look at.
class Fields {
 public:
  void set(std::string name, at::Tensor tensor);

  /// Throws `Options`, with the names that there are, for another one.
  const at::Tensor& operator[](std::string_view name) const;
  bool has(std::string_view name) const noexcept;
  /// The first of them, as a data set declares them.
  const at::Tensor& front() const;
  /// Samples.
  std::int64_t size() const { return front().size(0); }

 private:
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
};

}  // namespace lockstep
