#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"

int main(int argc, char** argv) {
  lockstep::open_missing_standard_streams();
  return lockstep::cli::dispatch(lockstep::cli::dashboard_commands(), {argv + 1, argv + argc},
                                 lockstep::topology::Environment::of_this_process());
}
