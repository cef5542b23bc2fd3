#include "lockstep/comm/mpi/control_message.h"

#include "lockstep/comm/mpi/plain_bytes.h"

namespace lockstep::comm::mpi {
namespace {

enum class MessageKind : std::int64_t { Note, FabricTag };

/// Leaves room for two texts and the numbers around them.
constexpr std::size_t kLongestText = kLongestControlMessage / 2 - 256;

/// The beginning of a text, without half a character at the end.
std::string_view shortened(std::string_view text) {
  if (text.size() <= kLongestText) return text;
  auto end = kLongestText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

std::string bytes_of(const hosts::Note& note) {
  ByteWriter writer;
  writer.number(static_cast<std::int64_t>(MessageKind::Note));
  writer.number(static_cast<std::int64_t>(note.kind));
  writer.number(note.quiet_for.count());
  writer.number(note.error.has_value());
  if (note.error) {
    writer.number(static_cast<std::int64_t>(note.error->kind()));
    writer.text(shortened(note.error->what()));
    writer.text(shortened(note.error->hint()));
  }
  return writer.take();
}

std::string bytes_of(const FabricTag& tag) {
  ByteWriter writer;
  writer.number(static_cast<std::int64_t>(MessageKind::FabricTag));
  writer.number(static_cast<std::int64_t>(tag.fabric));
  writer.number(tag.tag);
  return writer.take();
}

hosts::Note note_of(ByteReader& reader, int sender) {
  hosts::Note note;
  note.host = sender;
  note.kind = static_cast<hosts::Note::Kind>(reader.number());
  note.quiet_for = std::chrono::nanoseconds(reader.number());
  if (reader.number() == 0) return note;
  const auto kind = static_cast<ErrorKind>(reader.number());
  const auto message = reader.text();
  note.error.emplace(kind, message, reader.text());
  return note;
}

}  // namespace

std::string to_bytes(const ControlMessage& message) {
  return std::visit([](const auto& content) { return bytes_of(content); }, message);
}

ControlMessage message_of(std::string_view bytes, int sender) {
  ByteReader reader(bytes);
  if (static_cast<MessageKind>(reader.number()) == MessageKind::Note) {
    return note_of(reader, sender);
  }
  FabricTag tag;
  tag.fabric = static_cast<std::uint64_t>(reader.number());
  tag.tag = static_cast<int>(reader.number());
  return tag;
}

}  // namespace lockstep::comm::mpi
