#include "bench/driver/python_peer.h"

#include <fmt/format.h>

#include <filesystem>

#include "bench/driver/programs.h"
#include "bench/driver/run_to_end.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

namespace fs = std::filesystem;

std::string find_script(std::string_view where, const char* name) {
  auto script = libexec_file(name);
  if (fs::exists(script)) return script;
  throw Error(ErrorKind::Unavailable,
              fmt::format("{}: expected the script {}, which is not here", where, script),
              "build with -DLOCKSTEP_BUILD_BENCHMARKS=ON");
}

std::string find_python(std::string_view where, const topology::Environment& environment) {
  const std::string has_torch =
      "import importlib.util as u, sys; "
      "sys.exit(not all(map(u.find_spec, ('torch', 'torchvision', 'PIL'))))";
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    try {
      run_to_end({python, "-c", has_torch}, environment);
      return python;
    } catch (const Error&) {
      continue;
    }
  }
  throw Error(ErrorKind::Unavailable,
              fmt::format("{}: expected a python3 with torch, torchvision and Pillow", where),
              "apt-get install python3-torch python3-torchvision");
}

}  // namespace

PythonPeer find_python_peer(std::string_view where, const char* script,
                            const topology::Environment& environment) {
  auto path = find_script(where, script);
  return {find_python(where, environment), std::move(path)};
}

}  // namespace lockstep::bench
