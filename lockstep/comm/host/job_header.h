#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>

#include "lockstep/comm/host/shared_text.h"

namespace lockstep::comm::host {

// What the instances of a job share on one host, at the beginning of its memory. Zeroed memory is
// the state in which nothing has happened. Instances have their numbers in the job; where it is on
// several hosts, those of the others are absent for ever. Several builds of lockstep may meet by
// mistake: change kLayoutVersion with anything here or in channel.h.

inline constexpr std::uint32_t kLayoutVersion = 2;
inline constexpr int kMaxInstances = 256;
inline constexpr int kMaxGroups = 1024;
inline constexpr int kMaxCores = 1024;

enum class Presence : std::uint32_t { Absent, Present, Left };

struct alignas(64) InstanceSlot {
  std::atomic<Presence> presence;
  std::int32_t process;                    ///< written before it is present
  std::bitset<kMaxCores> cores;            ///< that it may run on; written before it first waits
  std::atomic<std::int32_t> thread;        ///< that asked for its last collective
  std::atomic<std::int64_t> heartbeat_ns;  ///< on the steady clock; 0: never
  /// When it last found itself waiting for other hosts; 0: never.
  std::atomic<std::int64_t> waits_for_hosts_ns;
  /// Where it takes connections of other hosts; 0: nowhere, or not known yet. Of all instances of
  /// the job.
  std::atomic<std::int32_t> port;
  SharedText doing;
};

/// What the leader of this host has heard of another host, on this host's steady clock; 0: nothing.
struct HostSlot {
  std::atomic<std::int64_t> heard_ns;
  std::atomic<std::int64_t> heartbeat_ns;  ///< the newest of its instances'
  std::atomic<std::int64_t> left_ns;       ///< when it said that it needs nobody any more
};

/// The one error of a job: whoever notices it first writes it down, and everybody throws it.
struct Verdict {
  static constexpr std::int32_t kNone = 0;
  static constexpr std::int32_t kWritten = -1;
  std::atomic<std::int32_t> state;  ///< one of these, or 1 + the instance that is writing it
  std::int32_t kind;
  std::array<char, 8192> message;
  std::array<char, 512> hint;
};

/// Where the members of a group find their channel. `parent` and `members` are its key.
struct GroupEntry {
  std::atomic<std::uint32_t> is_ready;
  std::uint64_t parent;
  std::bitset<kMaxInstances> members;
  std::uint64_t offset;
};

struct JobHeader {
  std::int32_t num_instances;        ///< of the job
  std::int32_t num_local_instances;  ///< on this host
  std::array<char, 256> host;
  std::atomic<std::uint64_t> end;  ///< of what is in use of the memory
  Verdict verdict;
  std::atomic<std::uint32_t> num_groups;
  std::array<GroupEntry, kMaxGroups> groups;
  std::array<InstanceSlot, kMaxInstances> instances;
  std::array<HostSlot, kMaxInstances> hosts;
};

}  // namespace lockstep::comm::host
