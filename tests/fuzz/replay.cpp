// replay FOLDER: runs every file of a folder through a fuzz target, for builds without libFuzzer.
#include <cstdio>
#include <filesystem>
#include <string>

#include "lockstep/base/file.h"
#include "tests/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::printf("%s\n", entry.path().filename().c_str());
    const auto content = lockstep::read_file(entry.path().string());
    const auto bytes = lockstep::data::as_bytes(content);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++count;
  }
  return count > 0 ? 0 : 1;  // a corpus that is gone is no success
}
