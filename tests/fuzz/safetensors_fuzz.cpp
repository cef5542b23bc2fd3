#include "lockstep/weights/digest.h"
#include "lockstep/weights/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(file) {
  // The digest touches every byte that a tensor refers to.
  lockstep::weights::digest_of(lockstep::weights::read_safetensors(std::as_bytes(file), "fuzz"));
}
