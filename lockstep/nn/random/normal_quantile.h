#pragma once

namespace lockstep::nn {

/// The number below which a share `p` of a standard normal distribution lies, for 0 < p < 1, to 16
/// digits (Wichura, "Algorithm AS 241", PPND16).
///
/// It is made of additions, multiplications, divisions and square roots alone, in one order, so a
/// weight drawn through it has the same bits on every machine. A logarithm of the C library has
/// not: it is another one on a CPU with fused multiply-add.
double normal_quantile(double p) noexcept;

}  // namespace lockstep::nn
