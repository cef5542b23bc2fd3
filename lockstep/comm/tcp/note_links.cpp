#include "lockstep/comm/tcp/note_links.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/comm/tcp/socket.h"

namespace lockstep::comm::tcp {
namespace {

using hosts::Note;

/// What goes in front of an error's message and hint.
struct Frame {
  Note::Kind kind;
  std::int32_t error_kind;
  std::int64_t quiet_ns;
  std::uint32_t message_bytes;
  std::uint32_t hint_bytes;
};

constexpr std::uint32_t kMostText = 16384;

std::vector<std::byte> encode(const Note& note) {
  Frame frame{.kind = note.kind,
              .error_kind = 0,
              .quiet_ns = note.quiet_for.count(),
              .message_bytes = 0,
              .hint_bytes = 0};
  std::string text;
  if (note.error) {
    const auto message = std::string(note.error->what()).substr(0, kMostText);
    const auto hint = note.error->hint().substr(0, kMostText);
    frame.error_kind = static_cast<std::int32_t>(note.error->kind());
    frame.message_bytes = static_cast<std::uint32_t>(message.size());
    frame.hint_bytes = static_cast<std::uint32_t>(hint.size());
    text = message + hint;
  }
  std::vector<std::byte> bytes(sizeof(frame) + text.size());
  std::memcpy(bytes.data(), &frame, sizeof(frame));
  std::memcpy(bytes.data() + sizeof(frame), text.data(), text.size());
  return bytes;
}

bool makes_sense(const Frame& frame) {
  return frame.kind <= Note::Kind::Left && frame.message_bytes <= kMostText &&
         frame.hint_bytes <= kMostText && frame.error_kind >= 0 &&
         frame.error_kind <= static_cast<std::int32_t>(ErrorKind::Bug);
}

}  // namespace

NoteLinks::NoteLinks(std::vector<UniqueFd> sockets) {
  for (auto& socket : sockets) links_.push_back({.socket = std::move(socket)});
}

NoteLinks::~NoteLinks() {
  for (auto& link : links_) {
    if (!link.socket) continue;
    flush(link);
    // Closing a connection with something unread would take back what was sent.
    ::shutdown(link.socket.get(), SHUT_WR);
    std::array<std::byte, 4096> rest;
    while (::recv(link.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0) {
    }
  }
}

void NoteLinks::tell(const Note& note) noexcept {
  const auto bytes = encode(note);
  const std::lock_guard lock(mutex_);
  for (auto& link : links_) {
    if (!link.socket) continue;
    // Whoever takes nothing for long needs no further sign of life.
    if (note.kind == Note::Kind::Alive && !link.unsent.empty()) continue;
    link.unsent.insert(link.unsent.end(), bytes.begin(), bytes.end());
    flush(link);
  }
}

void NoteLinks::flush(Link& link) noexcept {
  while (!link.unsent.empty()) {
    const auto count = ::send(link.socket.get(), link.unsent.data(), link.unsent.size(),
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      // What is gone is found out by whoever reads.
      if (!would_wait()) link.unsent.clear();
      return;
    }
    link.unsent.erase(link.unsent.begin(), link.unsent.begin() + count);
  }
}

std::vector<Note> NoteLinks::take() {
  const std::lock_guard lock(mutex_);
  std::vector<Note> notes;
  for (int host = 0; host < static_cast<int>(links_.size()); ++host) receive(host, notes);
  return notes;
}

void NoteLinks::receive(int host, std::vector<Note>& notes) {
  auto& link = links_[static_cast<std::size_t>(host)];
  if (!link.socket) return;
  flush(link);
  std::array<std::byte, 4096> bytes;
  while (true) {
    const auto count = ::recv(link.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && would_wait()) return;
    if (count > 0) {
      link.received.insert(link.received.end(), bytes.begin(), bytes.begin() + count);
      if (parse(link, host, notes)) continue;
    }
    link.socket.reset();
    if (!link.has_left) notes.push_back({.kind = Note::Kind::Lost, .host = host});
    return;
  }
}

bool NoteLinks::parse(Link& link, int host, std::vector<Note>& notes) {
  std::size_t begin = 0;
  const auto left = [&] { return link.received.size() - begin; };
  while (left() >= sizeof(Frame)) {
    Frame frame{};
    std::memcpy(&frame, link.received.data() + begin, sizeof(frame));
    if (!makes_sense(frame)) return false;
    const auto text_bytes = std::size_t{frame.message_bytes} + frame.hint_bytes;
    if (left() < sizeof(frame) + text_bytes) break;
    const std::string text(
        reinterpret_cast<const char*>(link.received.data()) + begin + sizeof(frame), text_bytes);
    begin += sizeof(frame) + text_bytes;
    Note note{.kind = frame.kind, .host = host};
    note.quiet_for = std::chrono::nanoseconds(frame.quiet_ns);
    if (frame.kind == Note::Kind::Failed) {
      note.error = Error(static_cast<ErrorKind>(frame.error_kind),
                         text.substr(0, frame.message_bytes), text.substr(frame.message_bytes));
    }
    link.has_left |= frame.kind == Note::Kind::Left;
    notes.push_back(std::move(note));
  }
  link.received.erase(link.received.begin(),
                      link.received.begin() + static_cast<std::ptrdiff_t>(begin));
  return true;
}

}  // namespace lockstep::comm::tcp
