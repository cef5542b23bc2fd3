#include <fmt/format.h>
#include <xxhash.h>

#include "lockstep/checkpoint/manifest.h"
#include "tests/fuzz/fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(file) {
  // With the checksum that it should have: nothing else would come further than that.
  constexpr std::string_view kBefore = "  \"checksum\": \"";
  constexpr std::string_view kDigits = "0000000000000000";
  constexpr std::string_view kAfter = "\"\n}\n";
  auto text = fmt::format("{}{}{}{}", lockstep::data::as_text(file), kBefore, kDigits, kAfter);
  text.replace(text.size() - kAfter.size() - kDigits.size(), kDigits.size(),
               fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())));
  const auto manifest = lockstep::checkpoint::parse_manifest(text, "fuzz");
  // What was read can be written, and comes back.
  lockstep::checkpoint::parse_manifest(lockstep::checkpoint::to_json(manifest), "fuzz");
}
