#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/bytes.h"

/// Tries a reader with any bytes. `Data` is the right answer to most of them; whatever else comes
/// out of a reader is a mistake of its own and ends the program.
template <typename Read>
int try_reader(Read read, lockstep::data::Bytes file) {
  try {
    read(file);
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::Data) throw;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// LOCKSTEP_FUZZ_TARGET(file) { read(file); } defines the function that libFuzzer and replay.cpp
/// call.
#define LOCKSTEP_FUZZ_TARGET(file)                                                    \
  static void read_for_fuzzing(lockstep::data::Bytes file);                           \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    return try_reader(read_for_fuzzing, lockstep::data::Bytes(data, size));           \
  }                                                                                   \
  static void read_for_fuzzing(lockstep::data::Bytes file)
