// Writes checkpoints as a training would, for tests that kill it: FOLDER LAST STEP:SALT…

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lockstep/base/error.h"
#include "tests/checkpoint/made_content.h"

int main(int count, char** arguments) try {
  if (count < 3) return 2;
  lockstep::checkpoint::CheckpointFolder folder(arguments[1], {.last = std::atoi(arguments[2])});
  for (int i = 3; i < count; ++i) {
    const std::string word = arguments[i];
    const auto salt = std::stoul(word.substr(word.find(':') + 1));
    folder.write(
        lockstep::testing::made_content(std::stoll(word), static_cast<std::uint32_t>(salt)));
  }
  // What holds the folder until standard input ends, for a test of the lock.
  if (count == 3) {
    std::puts("locked");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
  }
  return 0;
} catch (const lockstep::Error& error) {
  std::fputs(error.what(), stderr);
  return lockstep::exit_code(error.kind());
}
