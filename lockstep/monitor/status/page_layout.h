#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lockstep/base/fnv.h"

// A status page is a file of one memory page that its instance maps and writes, and that others
// read as a file: who maps a file that somebody else cuts short is killed.
//
// The facts are written before the file gets its name. The state is written again and again, by a
// seqlock with two places: update n goes to place n mod 2, and then `sequence` becomes n. As long
// as `sequence` is n, the writer has at most touched the other place. So the writer never waits,
// and one that is killed in the middle of an update leaves the one before it whole. A reader takes
// n, copies both places, and uses the newest that is n or later and has the checksum of what it
// holds; a writer in a hurry may have gone on by some updates meanwhile, and only where both copies
// are parts of two does the reader begin anew.
//
// Several builds of lockstep may meet: change kLayoutVersion with anything here.

namespace lockstep::monitor::page {

inline constexpr std::uint64_t kMagic = 0x4547'4150'5453'4b4cU;  // "LKSTPAGE"
inline constexpr std::uint64_t kLayoutVersion = 1;
inline constexpr std::size_t kPageSize = 4096;
inline constexpr std::size_t kMaxDevices = 64;

/// Texts end at the first zero, or fill their place.
struct Facts {
  std::array<char, 64> job;
  std::array<char, 64> host;
  std::array<char, 32> user;
  std::array<char, 512> command;
  std::uint64_t start_ticks;
  double start_time;
  std::int32_t process;
  std::int32_t instance;
  std::int32_t num_instances;
  std::int32_t restart_count;
  std::int32_t first_replica;
  std::int32_t local_replicas;
  std::int32_t num_replicas;
  std::int32_t devices_per_replica;
  std::int32_t threads_per_device;
  std::int32_t device_kind;
  std::int32_t num_devices;  ///< of which the first kMaxDevices are here
  std::int32_t unused;
  std::array<std::int32_t, kMaxDevices> device_ids;
};

struct State {
  std::uint64_t sequence;
  std::int64_t phase;
  std::int64_t epoch;
  std::int64_t step;
  std::int64_t steps_of_epoch;
  std::int64_t samples;
  double samples_per_second;
  double loss;
  double accuracy;
  double data_seconds;
  double compute_seconds;
  double reduce_seconds;
  double idle_seconds;
  std::int64_t device_memory_bytes;
  std::int64_t updated_ns;
  std::int64_t collectives;
  std::int64_t is_in_collective;
  std::array<char, 64> collective;
};

inline constexpr std::size_t kStateWords = sizeof(State) / sizeof(std::uint64_t);
using StateWords = std::array<std::uint64_t, kStateWords>;

/// One of the two places of the state.
struct alignas(64) Place {
  std::array<std::atomic<std::uint64_t>, kStateWords> words;
  std::atomic<std::uint64_t> checksum;
};

struct Page {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t facts_checksum;
  alignas(64) std::atomic<std::uint64_t> sequence;  ///< 0: nothing was said yet
  alignas(64) Facts facts;
  std::array<Place, 2> places;
};

static_assert(sizeof(Page) <= kPageSize);
static_assert(sizeof(State) % sizeof(std::uint64_t) == 0);
static_assert(std::is_trivially_copyable_v<Facts> && std::is_trivially_copyable_v<State>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Over whole words, because it is computed with every update.
template <typename Value>
std::uint64_t checksum_of(const Value& value) noexcept {
  const auto words =
      std::bit_cast<std::array<std::uint64_t, sizeof(Value) / sizeof(std::uint64_t)>>(value);
  Fnv hash;
  for (const auto word : words) hash.add(word);
  return hash.value();
}

}  // namespace lockstep::monitor::page
