// lockstep-bench: all of `lockstep bench`, and the processes of lockstep that it starts and
// measures.
//
// This program must start as fast as any program that links lockstep::lockstep, because `lockstep
// bench launch` measures its start. Therefore it does not link libtorch, which takes 0.7 s to load.
// What needs libtorch is a library that is loaded on first use: see train/torch_functions.h.

#include <cstdio>

#include "bench/driver/commands.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"

int main(int argc, char** argv) {
  lockstep::open_missing_standard_streams();
  return lockstep::cli::report_errors([&] {
    lockstep::bench::run_bench({argv + 1, argv + argc},
                               lockstep::topology::Environment::of_this_process());
    if (std::fflush(stdout) != 0) throw lockstep::io_error("standard output");
    return 0;
  });
}
