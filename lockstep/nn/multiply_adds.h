#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::nn {

/// How many multiplications with addition the convolutions and matrix products take that `action`
/// runs in this thread, forward; whatever the model is made of.
std::int64_t count_multiply_adds(const std::function<void()>& action);

}  // namespace lockstep::nn
