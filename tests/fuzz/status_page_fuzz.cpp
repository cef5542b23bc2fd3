#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/file.h"
#include "lockstep/monitor/status/page_layout.h"
#include "lockstep/monitor/status/read_page.h"
#include "tests/fuzz/fuzz_target.h"

namespace page = lockstep::monitor::page;

/// With the beginning and the checksums that it should have: little else would come further.
static void make_credible(page::Page& made) {
  made.magic = page::kMagic;
  made.version = page::kLayoutVersion;
  made.facts_checksum = page::checksum_of(made.facts);
  auto& place = made.places[made.sequence.load() % 2];
  page::State state{};
  std::memcpy(&state, &place.words, sizeof state);
  state.sequence = made.sequence.load();
  std::memcpy(&place.words, &state, sizeof state);
  place.checksum.store(page::checksum_of(state));
}

LOCKSTEP_FUZZ_TARGET(file) {
  const lockstep::UniqueFd memory(::memfd_create("status page", MFD_CLOEXEC));
  page::Page made{};
  std::memcpy(&made, file.data(), std::min(file.size(), sizeof made));
  make_credible(made);
  // A short input is a page that was cut short.
  const auto length = std::min(file.size(), sizeof made);
  if (::write(memory.get(), &made, length) != static_cast<ssize_t>(length)) return;
  try {
    const auto content = lockstep::monitor::read_page(memory.get());
    if (content.facts.process <= 0 || content.facts.replicas.count <= 0) __builtin_trap();
  } catch (const lockstep::monitor::BadPage&) {
    // The right answer to most of them.
  }
}
