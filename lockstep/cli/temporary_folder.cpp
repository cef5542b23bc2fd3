#include "lockstep/cli/temporary_folder.h"

#include <cstdlib>

#include "lockstep/base/error.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  auto name = (fs::temp_directory_path() / "lockstep-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw io_error(name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lockstep::cli
