#include "lockstep/monitor/export/span_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/mapped_file.h"

namespace lockstep::monitor {
namespace {

/// More than any recorder would make; it keeps the arithmetic on sizes from overflowing.
constexpr std::uint64_t kMostSpansPerTrack = std::uint64_t{1} << 32;
constexpr std::uint32_t kMostTracks = 1U << 16;

Error damaged(const std::string& path, const std::string& what) {
  return {ErrorKind::Data, fmt::format("trace: {}: {}", path, what),
          "leave this file out of the trace"};
}

std::string text_of(const char (&bytes)[kNameBytes]) {
  return {bytes, ::strnlen(bytes, kNameBytes)};
}

const FileHeader& checked_header(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(FileHeader)) {
    throw damaged(path,
                  fmt::format("expected the spans of an instance, found {} bytes", bytes.size()));
  }
  const auto& header = *reinterpret_cast<const FileHeader*>(bytes.data());
  if (header.magic != kSpanFileMagic) {
    throw damaged(path, "expected the spans of an instance, found another kind of file");
  }
  if (header.most_tracks > kMostTracks || header.spans_per_track == 0 ||
      header.spans_per_track > kMostSpansPerTrack || header.tracks > header.most_tracks) {
    throw damaged(path, "expected the spans of an instance, found a damaged header");
  }
  const auto expected = span_file_size(header.most_tracks, header.spans_per_track);
  if (bytes.size() < expected) {
    throw damaged(path, fmt::format("expected {} bytes, found {}", expected, bytes.size()));
  }
  return header;
}

events::Span load(const Slot& slot) {
  const auto step_and_kind = slot.step_and_kind.load(std::memory_order_acquire);
  const auto kind = std::min<std::int64_t>(step_and_kind & 0xff, events::kSpanKinds - 1);
  return {.kind = static_cast<events::SpanKind>(kind),
          .begin = slot.begin.load(std::memory_order_acquire),
          .end = slot.end.load(std::memory_order_acquire),
          .step = step_and_kind >> 8};
}

/// What no clock shows would overflow when clocks are compared.
bool is_possible(const events::Span& span) {
  constexpr std::int64_t kLatest = std::int64_t{1} << 61;  // 73 years
  return 0 <= span.begin && span.begin <= span.end && span.end <= kLatest;
}

/// The writer may be replacing the oldest span at this moment, or may have been killed while it
/// did: that one is left out, and so are those that were replaced while we read.
TrackSpans read_track(const TrackHeader& header, std::span<const Slot> ring) {
  TrackSpans track{.name = text_of(header.name), .spans = {}, .lost = 0};
  const auto first_unsafe = [&](std::uint64_t written) {
    return written < ring.size() ? 0 : written - ring.size() + 1;
  };
  const auto written = header.written.load(std::memory_order_acquire);
  auto first = first_unsafe(written);
  for (auto i = first; i < written; ++i) track.spans.push_back(load(ring[i % ring.size()]));
  const auto still_there = first_unsafe(header.written.load(std::memory_order_acquire));
  if (still_there > first) {
    const auto gone = std::min<std::uint64_t>(still_there - first, track.spans.size());
    track.spans.erase(track.spans.begin(), track.spans.begin() + static_cast<std::ptrdiff_t>(gone));
    first += gone;
  }
  track.lost = first;
  std::erase_if(track.spans, [](const events::Span& span) { return !is_possible(span); });
  return track;
}

/// As if they had come one after another, behind those that are lost.
void pack_track(const TrackSpans& track, TrackHeader& header, std::span<Slot> ring) {
  const bool is_full = track.spans.size() + 1 == ring.size();
  const auto before = is_full ? track.lost : 0;
  copy_name(header.name, track.name);
  for (std::size_t i = 0; i < track.spans.size(); ++i) {
    const auto& span = track.spans[i];
    auto& slot = ring[(before + i) % ring.size()];
    slot.begin = span.begin;
    slot.end = span.end;
    slot.step_and_kind = (span.step << 8) | static_cast<std::int64_t>(span.kind);
  }
  header.written = before + track.spans.size();
}

}  // namespace

std::vector<std::byte> pack_spans(const InstanceSpans& instance) {
  std::size_t longest = 0;
  for (const auto& track : instance.tracks) longest = std::max(longest, track.spans.size());
  const auto tracks = static_cast<std::uint32_t>(instance.tracks.size());
  std::vector<std::byte> bytes(span_file_size(tracks, longest + 1));
  auto& header =
      *new (bytes.data()) FileHeader{.magic = kSpanFileMagic,
                                     .instance = instance.instance,
                                     .attempt = instance.attempt,
                                     .process = instance.process,
                                     .most_tracks = tracks,
                                     .spans_per_track = longest + 1,
                                     .wall_minus_monotonic = instance.wall_minus_monotonic,
                                     .tracks = tracks};
  copy_name(header.host, instance.host);
  copy_name(header.boot, instance.boot);
  auto* const headers = reinterpret_cast<TrackHeader*>(&header + 1);
  auto* const slots = reinterpret_cast<Slot*>(headers + tracks);
  for (std::size_t i = 0; i < instance.tracks.size(); ++i) {
    std::uninitialized_default_construct_n(slots + i * (longest + 1), longest + 1);
    pack_track(instance.tracks[i], *new (headers + i) TrackHeader,
               {slots + i * (longest + 1), longest + 1});
  }
  return bytes;
}

std::size_t span_file_size(std::uint32_t most_tracks, std::uint64_t spans_per_track) noexcept {
  return sizeof(FileHeader) + most_tracks * sizeof(TrackHeader) +
         most_tracks * spans_per_track * sizeof(Slot);
}

InstanceSpans read_span_file(const std::string& path) {
  const MappedFile file(path);
  return read_spans(file.bytes(), path);
}

InstanceSpans read_spans(std::span<const std::byte> file, const std::string& name) {
  const auto& header = checked_header(name, file);
  const auto* tracks = reinterpret_cast<const TrackHeader*>(&header + 1);
  const auto* slots = reinterpret_cast<const Slot*>(tracks + header.most_tracks);
  InstanceSpans result{.instance = header.instance,
                       .attempt = header.attempt,
                       .process = header.process,
                       .host = text_of(header.host),
                       .boot = text_of(header.boot),
                       .wall_minus_monotonic = header.wall_minus_monotonic,
                       .tracks = {}};
  const auto count = header.tracks.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::span ring(slots + i * header.spans_per_track, header.spans_per_track);
    result.tracks.push_back(read_track(tracks[i], ring));
  }
  return result;
}

}  // namespace lockstep::monitor
