#include "lockstep/data/formats/gzip.h"
#include "lockstep/data/formats/idx.h"
#include "tests/fuzz/fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(file) {
  using namespace lockstep::data;
  if (!is_gzip(file)) {
    read_idx(file, "fuzz");
    return;
  }
  const auto content = unpack_gzip(file, "fuzz", std::size_t{1} << 20);
  read_idx(as_bytes(content), "fuzz");
}
