#include <filesystem>
#include <fstream>
#include <iostream>

#include "tools/manual/command_tree.h"
#include "tools/manual/completion.h"
#include "tools/manual/man_page.h"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

/// Writes the man pages and the completions below FOLDER, in the layout of /usr/share.
int main(int argc, char** argv) {
  namespace manual = lockstep::manual;
  if (argc != 4) {
    std::cerr << "usage: lockstep_manual LOCKSTEP VERSION FOLDER\n";
    return 2;
  }
  try {
    const fs::path folder = argv[3];
    const auto top = manual::read_commands(argv[1]);
    fs::remove_all(folder / "man");
    manual::for_each_command(top, [&](const manual::Command& command) {
      write(folder / "man/man1" / (manual::page_name(command) + ".1"),
            manual::man_page(command, argv[2]));
    });
    write(folder / "bash-completion/completions/lockstep", manual::bash_completion(top));
    write(folder / "zsh/site-functions/_lockstep", manual::zsh_completion(top));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "lockstep_manual: " << error.what() << "\n";
    return 1;
  }
}
