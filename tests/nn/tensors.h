#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace lockstep::testing {

/// Fails unless both have the same shape and type, and each pair of elements differs by at most
/// `relative` of the largest absolute value of `expected`.
void expect_close(const at::Tensor& found, const at::Tensor& expected, double relative,
                  const std::string& what = "");

/// Fails unless both have the same shape, type and bits, whatever their memory format.
void expect_same_bits(const at::Tensor& found, const at::Tensor& expected,
                      const std::string& what = "");

}  // namespace lockstep::testing
