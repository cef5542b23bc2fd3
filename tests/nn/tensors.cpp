#include "tests/nn/tensors.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>

namespace lockstep::testing {
namespace {

bool are_alike(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  EXPECT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << what;
  return found.sizes() == expected.sizes() && found.scalar_type() == expected.scalar_type();
}

}  // namespace

void expect_close(const at::Tensor& found, const at::Tensor& expected, double relative,
                  const std::string& what) {
  if (!are_alike(found, expected, what) || expected.numel() == 0) return;
  const auto exact = expected.detach().to(at::kDouble);
  const auto error = (found.detach().to(at::kDouble) - exact).abs().max().item<double>();
  EXPECT_LE(error, relative * exact.abs().max().item<double>() + 1e-30) << what;
}

void expect_same_bits(const at::Tensor& found, const at::Tensor& expected,
                      const std::string& what) {
  if (!are_alike(found, expected, what)) return;
  const auto left = found.detach().contiguous();
  const auto right = expected.detach().contiguous();
  EXPECT_EQ(std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()), 0)
      << what << ": largest difference "
      << (left.to(at::kDouble) - right.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace lockstep::testing
