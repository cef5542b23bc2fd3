// The main function of all test programs.

#include <gmock/gmock.h>
#include <stdlib.h>

#include "tests/support/scratch_folder.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  // Jobs have their folders here. Tests that list the jobs of this user do not see the jobs of
  // tests that run at the same time.
  const lockstep::testing::ScratchFolder folder;
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  ::setenv("XDG_RUNTIME_DIR", "", 1);
  return RUN_ALL_TESTS();
}
