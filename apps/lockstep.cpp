#include "lockstep/cli/command.h"

int main(int argc, char** argv) {
  return lockstep::cli::dispatch({argv + 1, argv + argc},
                                 lockstep::topology::Environment::of_this_process());
}
