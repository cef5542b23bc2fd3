#include "lockstep/nn/compute_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

namespace lockstep::nn {
namespace {

TEST(ComputeThreadsTest, BindsTheCallingThreadOnly) {
  use_compute_threads(2);
  std::thread([] {
    use_compute_threads(1);
    EXPECT_EQ(at::get_num_threads(), 1);
  }).join();
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST(ComputeThreadsTest, ReachesTheBlas) {
  using CountThreads = int (*)();
  const auto count =
      reinterpret_cast<CountThreads>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  if (count == nullptr) GTEST_SKIP() << "libtorch's BLAS is not OpenBLAS";
  for (const int threads : {2, 1}) {
    use_compute_threads(threads);
    EXPECT_EQ(count(), threads);
  }
}

}  // namespace
}  // namespace lockstep::nn
