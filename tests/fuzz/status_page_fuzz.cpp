#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "lockstep/base/file.h"
#include "lockstep/monitor/status/page_layout.h"
#include "lockstep/monitor/status/read_page.h"
#include "tests/fuzz/fuzz_target.h"

namespace page = lockstep::monitor::page;

using RawPage = std::array<std::uint8_t, sizeof(page::Page)>;

template <typename Value>
static Value value_at(const RawPage& raw, std::size_t offset) {
  Value value{};
  std::memcpy(&value, raw.data() + offset, sizeof value);
  return value;
}

template <typename Value>
static void put(RawPage& raw, std::size_t offset, const Value& value) {
  std::memcpy(raw.data() + offset, &value, sizeof value);
}

/// With the beginning and the checksums that it should have: little else would come further.
static void make_credible(RawPage& raw) {
  put(raw, offsetof(page::Page, magic), page::kMagic);
  put(raw, offsetof(page::Page, version), page::kLayoutVersion);
  put(raw, offsetof(page::Page, facts_checksum),
      page::checksum_of(value_at<page::Facts>(raw, offsetof(page::Page, facts))));
  const auto sequence = value_at<std::uint64_t>(raw, offsetof(page::Page, sequence));
  const auto place = offsetof(page::Page, places) + sequence % 2 * sizeof(page::Place);
  auto state = value_at<page::State>(raw, place);
  state.sequence = sequence;
  put(raw, place, state);
  put(raw, place + offsetof(page::Place, checksum), page::checksum_of(state));
}

LOCKSTEP_FUZZ_TARGET(file) {
  RawPage raw{};
  const auto length = std::min(file.size(), raw.size());
  std::copy_n(file.data(), length, raw.data());
  make_credible(raw);
  // A short input is a page that was cut short.
  const lockstep::UniqueFd memory(::memfd_create("status page", MFD_CLOEXEC));
  if (::write(memory.get(), raw.data(), length) != static_cast<ssize_t>(length)) return;
  try {
    const auto content = lockstep::monitor::read_page(memory.get());
    if (content.facts.process <= 0 || content.facts.replicas.count <= 0) __builtin_trap();
  } catch (const lockstep::monitor::BadPage&) {
    // The right answer to most of them.
  }
}
