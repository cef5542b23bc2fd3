#include "lockstep/comm/mpi/join.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/comm/mpi/module.h"

namespace lockstep::comm::mpi {
namespace {

namespace fs = std::filesystem;

/// The file that holds this code: a program, or liblockstep.
fs::path own_file() {
  std::error_code ignored;
  Dl_info info{};
  // The loader names libraries by whole paths, and the program as it was called.
  if (::dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0 && info.dli_fname[0] == '/') {
    return fs::canonical(info.dli_fname, ignored);
  }
  return fs::read_symlink("/proc/self/exe", ignored);
}

/// Looks beside the own file and in the folders above it, so that an installed tree can be moved.
fs::path find_module() {
  constexpr int kMostFolders = 4;
  const auto file = own_file();
  auto folder = file.parent_path();
  for (int i = 0; i < kMostFolders && folder.has_relative_path(); ++i) {
    const auto path = folder / LOCKSTEP_MPI_MODULE_FOLDER / LOCKSTEP_MPI_MODULE_NAME;
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path;
    folder = folder.parent_path();
  }
  throw Error(ErrorKind::Unavailable,
              fmt::format("mpi: expected the module {} in {} beside {} or a folder above, found it "
                          "in none",
                          LOCKSTEP_MPI_MODULE_NAME, LOCKSTEP_MPI_MODULE_FOLDER, file.string()),
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
