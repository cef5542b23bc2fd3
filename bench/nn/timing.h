#pragma once

#include <functional>
#include <vector>

namespace lockstep::bench {

/// Lets malloc keep what is freed, so that neither side is charged for pages from the kernel.
void keep_memory();

double milliseconds_of(const std::function<void()>& work);

double median(std::vector<double> values);

}  // namespace lockstep::bench
