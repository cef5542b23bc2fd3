#include "lockstep/monitor/web/stream.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace lockstep::monitor {
namespace {

using std::chrono::seconds;

constexpr std::size_t kBlockBytes = 4096;
constexpr auto kLongestSilence = seconds(10);
constexpr std::string_view kHead = "event: state\ndata: ";
constexpr std::string_view kTail = "\n\n";
constexpr std::string_view kSignOfLife = ": still here\n\n";

}  // namespace

MHD_Response* StreamSet::open(MHD_Connection* connection) {
  auto stream = std::make_unique<Stream>();
  stream->set = this;
  stream->connection = connection;
  stream->version = std::numeric_limits<std::uint64_t>::max();  // no text yet
  auto* const response = ::MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kBlockBytes, read,
                                                             stream.get(), forget);
  if (response == nullptr) return nullptr;
  stream->place = streams_.insert(streams_.end(), nullptr);
  *stream->place = std::move(stream);
  return response;
}

void StreamSet::forget(void* stream) {
  auto& gone = *static_cast<Stream*>(stream);
  gone.set->streams_.erase(gone.place);
}

ssize_t StreamSet::read(void* stream, std::uint64_t, char* buffer, std::size_t most) {
  auto& self = *static_cast<Stream*>(stream);
  auto& set = *self.set;
  if (set.is_ending_) return MHD_CONTENT_READER_END_OF_STREAM;
  if (!set.begin_next(self)) {
    set.connections_.resting(self.connection);
    self.is_resting = true;
    ::MHD_suspend_connection(self.connection);
    return 0;
  }
  const auto now = ConnectionTable::Clock::now();
  set.connections_.answering(self.connection, now);
  self.last_sent = now;
  return static_cast<ssize_t>(copy(self, buffer, most));
}

/// Whether there is something to send: the rest of what was begun, or the newest text.
bool StreamSet::begin_next(Stream& stream) {
  if (stream.text || !stream.rest_of_head.empty()) return true;
  if (stream.version == state_.version()) return false;
  stream.version = state_.version();
  stream.text = state_.text();
  stream.rest_of_head = kHead;
  stream.taken = 0;
  return true;
}

std::size_t StreamSet::copy(Stream& stream, char* buffer, std::size_t most) {
  if (!stream.rest_of_head.empty()) {
    const auto count = std::min(most, stream.rest_of_head.size());
    stream.rest_of_head.copy(buffer, count);
    stream.rest_of_head.erase(0, count);
    return count;
  }
  const auto& text = *stream.text;
  if (stream.taken < text.size()) {
    const auto count = text.copy(buffer, most, stream.taken);
    stream.taken += count;
    return count;
  }
  const auto count = kTail.copy(buffer, most, stream.taken - text.size());
  stream.taken += count;
  if (stream.taken == text.size() + kTail.size()) stream.text.reset();
  return count;
}

void StreamSet::resume(Stream& stream) {
  stream.is_resting = false;
  connections_.answering(stream.connection, ConnectionTable::Clock::now());
  ::MHD_resume_connection(stream.connection);
}

void StreamSet::wake(ConnectionTable::Clock::time_point now) {
  for (const auto& stream : streams_) {
    if (!stream->is_resting) continue;
    const bool is_silent = now - stream->last_sent > kLongestSilence;
    if (stream->version == state_.version() && !is_silent) continue;
    if (stream->version == state_.version()) stream->rest_of_head = kSignOfLife;
    resume(*stream);
  }
}

void StreamSet::end() {
  is_ending_ = true;
  for (const auto& stream : streams_) {
    if (stream->is_resting) resume(*stream);
  }
}

}  // namespace lockstep::monitor
