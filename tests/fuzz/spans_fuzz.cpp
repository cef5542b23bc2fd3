#include <span>

#include "lockstep/monitor/export/span_file.h"
#include "tests/fuzz/fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(file) {
  lockstep::monitor::read_spans(std::as_bytes(file), "fuzz");
}
