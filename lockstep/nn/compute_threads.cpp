#include "lockstep/nn/compute_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace lockstep::nn {
namespace {

/// OpenBLAS counts the cores of the affinity mask when it is loaded and hears of nothing else. It
/// is asked for at run time because another BLAS may stand in its place.
void use_blas_threads(int threads) {
  using SetThreads = void (*)(int);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym gives
  const auto set_threads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_threads != nullptr) set_threads(threads);
}

}  // namespace

void use_compute_threads(int threads) {
  at::get_num_threads();  // the first call in a thread sets the count that another thread set last
  at::set_num_threads(threads);
  use_blas_threads(threads);
}

}  // namespace lockstep::nn
