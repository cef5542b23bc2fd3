#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/events/trace_events.h"

// How the spans of an instance lie in its file, which it maps: what was recorded is still there
// when the instance has been killed, and is read by others while it runs.
//
//     FileHeader
//     TrackHeader × most_tracks
//     Slot × spans_per_track × most_tracks       a ring for each track, written by one thread

namespace lockstep::monitor {

inline constexpr std::uint64_t kSpanFileMagic = 0x31306e6170736b6cU;  // "lkspan01"
inline constexpr std::size_t kNameBytes = 64;

/// Cuts a name that is too long.
inline void copy_name(char (&target)[kNameBytes], std::string_view name) noexcept {
  std::copy_n(name.begin(), std::min(name.size(), kNameBytes - 1), target);
}

struct FileHeader {
  std::uint64_t magic = 0;  ///< written last
  std::int32_t instance = 0;
  std::int32_t attempt = 0;
  std::int32_t process = 0;
  std::uint32_t most_tracks = 0;
  std::uint64_t spans_per_track = 0;
  std::int64_t wall_minus_monotonic = 0;  ///< nanoseconds
  std::atomic<std::uint32_t> tracks = 0;
  char host[kNameBytes] = {};
  char boot[kNameBytes] = {};  ///< the kernel's name for this run of the machine
};

struct TrackHeader {
  std::atomic<std::uint64_t> written = 0;  ///< spans since the beginning
  char name[kNameBytes] = {};
};

struct Slot {
  std::atomic<std::int64_t> begin = 0;
  std::atomic<std::int64_t> end = 0;
  std::atomic<std::int64_t> step_and_kind = 0;  ///< the kind in the lowest byte
};

std::size_t span_file_size(std::uint32_t most_tracks, std::uint64_t spans_per_track) noexcept;

/// What one thread of an instance did, oldest end first.
struct TrackSpans {
  std::string name;
  std::vector<events::Span> spans;
  std::uint64_t lost = 0;  ///< older ones, which newer ones have replaced
};

/// What an instance did.
struct InstanceSpans {
  int instance = 0;
  int attempt = 0;  ///< how often the job had been started before
  int process = 0;
  std::string host;
  std::string boot;
  std::int64_t wall_minus_monotonic = 0;
  std::vector<TrackSpans> tracks;
};

/// Reads what an instance has recorded, whether it is running, has ended or was killed.
/// Errors: `Io`; `Data` where the file is none of ours, or shorter than it says.
InstanceSpans read_span_file(const std::string& path);

/// The same from memory, which must be aligned as what `new` gives; `name` is for messages.
InstanceSpans read_spans(std::span<const std::byte> file, const std::string& name);

/// The same as a file would hold it, without the room that is not used: to be sent elsewhere.
std::vector<std::byte> pack_spans(const InstanceSpans& instance);

}  // namespace lockstep::monitor
