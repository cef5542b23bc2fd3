#include "lockstep/data/formats/pickle.h"
#include "tests/fuzz/fuzz_target.h"

/// Touches every byte that a value refers to, so that a reference to nowhere is noticed.
static void touch(const lockstep::data::PickleValue& value) {
  volatile char last = 0;
  for (const auto byte : value.bytes) last = byte;
  static_cast<void>(last);
}

LOCKSTEP_FUZZ_TARGET(file) {
  const lockstep::data::Pickle pickle(file, "fuzz");
  touch(pickle.root());
  for (const auto* const item : pickle.root().items) touch(*item);
}
