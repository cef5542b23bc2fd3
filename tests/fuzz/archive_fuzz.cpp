#include "lockstep/data/formats/archive.h"
#include "tests/fuzz/fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(file) {
  // Not every file, so that passing over one is tried too.
  const auto is_wanted = [](std::string_view name) { return !name.ends_with('x'); };
  lockstep::data::read_archive(file, "fuzz",
                               {.wanted = is_wanted, .most_bytes = std::size_t{1} << 20});
}
