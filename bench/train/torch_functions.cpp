#include "bench/train/torch_functions.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "bench/driver/commands.h"
#include "bench/driver/programs.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

const TorchFunctions& load() {
  const auto path = libexec_file("lockstep-bench-torch.so");
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : ::dlsym(library, kTorchFunctionsSymbol);
  if (symbol != nullptr) return *reinterpret_cast<GetTorchFunctions*>(symbol)();
  throw Error(
      ErrorKind::Unavailable,
      fmt::format("bench train: expected the library {} with libtorch: {}", path, ::dlerror()),
      "build with -DLOCKSTEP_WITH_TORCH=ON, or install lockstep as a whole");
}

}  // namespace

const TorchFunctions& torch_functions() {
  static const auto& functions = load();
  return functions;
}

void update_worker(const std::string& network, int steps) {
  torch_functions().run_update_worker(network, steps);
}

}  // namespace lockstep::bench
