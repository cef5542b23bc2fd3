#include "lockstep/comm/mpi/join.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/comm/mpi/module.h"

namespace lockstep::comm::mpi {
namespace {

namespace fs = std::filesystem;

/// Where the module may be: in the tree that the program was installed in, which may have been
/// moved; where it was built; and where it is installed.
std::array<fs::path, 3> module_paths() {
  std::error_code ignored;
  const auto program = fs::read_symlink("/proc/self/exe", ignored);
  const auto tree = program.parent_path().parent_path();
  return {tree / LOCKSTEP_MPI_MODULE_FOLDER / LOCKSTEP_MPI_MODULE_NAME,
          fs::path(LOCKSTEP_MPI_BUILT_MODULE),
          fs::path(LOCKSTEP_MPI_INSTALLED_FOLDER) / LOCKSTEP_MPI_MODULE_NAME};
}

fs::path find_module() {
  const auto paths = module_paths();
  for (const auto& path : paths) {
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path;
  }
  throw Error(ErrorKind::Unavailable,
              fmt::format("mpi: expected the module {} in {} or {}, found it in neither",
                          LOCKSTEP_MPI_MODULE_NAME, paths.front().parent_path().string(),
                          paths.back().parent_path().string()),
              "install lockstep as a whole, or pass --transport tcp");
}

/// Stays loaded: MPI ends with the process.
const Module& load_module() {
  const auto path = find_module();
  // Open MPI loads parts of itself that look for its symbols among all that are loaded.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  void* function = library == nullptr ? nullptr : ::dlsym(library, kModuleFunction);
  if (function == nullptr) {
    throw Error(ErrorKind::Unavailable, fmt::format("mpi: cannot load the module: {}", ::dlerror()),
                "apt-get install openmpi-bin, or pass --transport tcp");
  }
  const auto* module = reinterpret_cast<ModuleFunction*>(function)();
  if (module->build == build_name()) return *module;
  throw Error(ErrorKind::Unavailable,
              fmt::format("mpi: expected {} to be of this program's build {}, found {}",
                          path.string(), build_name(), module->build),
              "build and install all of lockstep anew, or pass --transport tcp");
}

}  // namespace

bool is_built() noexcept {
  return true;
}

std::string_view library_version() noexcept {
  return LOCKSTEP_MPI_LIBRARY_VERSION;
}

Joined join(const Place& place, const WaitOptions& options) {
  return load_module().join(place, options);
}

}  // namespace lockstep::comm::mpi
