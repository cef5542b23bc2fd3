#include "bench/driver/programs.h"

#include <unistd.h>

#include <filesystem>

#include "lockstep/cli/installed_programs.h"

namespace lockstep::bench {

std::string lockstep_program() {
  return cli::program_beside("lockstep");
}

std::string libexec_file(const std::string& name) {
  const auto bin = std::filesystem::path(cli::own_program()).parent_path();
  return bin.parent_path() / "libexec" / "lockstep" / name;
}

std::vector<std::string> mpirun_launcher() {
  std::vector<std::string> launcher{"mpirun", "--oversubscribe", "-np"};
  if (::getuid() == 0) launcher.insert(launcher.begin() + 1, "--allow-run-as-root");
  return launcher;
}

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace lockstep::bench
