#include "lockstep/monitor/export/wire_message.h"

#include <bit>

namespace lockstep::monitor {
namespace {

enum class WireType : std::uint8_t { Varint = 0, EightBytes = 1, Bytes = 2, FourBytes = 5 };

std::uint64_t key_of(int field, WireType type) {
  return static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type);
}

}  // namespace

void append_little_endian(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

WireMessage& WireMessage::add_integer(int field, std::int64_t value) {
  add_varint(key_of(field, WireType::Varint));
  add_varint(static_cast<std::uint64_t>(value));
  return *this;
}

WireMessage& WireMessage::add_float(int field, float value) {
  add_varint(key_of(field, WireType::FourBytes));
  append_little_endian(bytes_, std::bit_cast<std::uint32_t>(value), 4);
  return *this;
}

WireMessage& WireMessage::add_double(int field, double value) {
  add_varint(key_of(field, WireType::EightBytes));
  append_little_endian(bytes_, std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

WireMessage& WireMessage::add_bytes(int field, std::string_view bytes) {
  add_varint(key_of(field, WireType::Bytes));
  add_varint(bytes.size());
  bytes_ += bytes;
  return *this;
}

WireMessage& WireMessage::add_message(int field, const WireMessage& message) {
  return add_bytes(field, message.bytes());
}

/// Seven bits a byte, lowest first; the eighth says that more follow.
void WireMessage::add_varint(std::uint64_t value) {
  while (value >= 0x80) {
    bytes_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  bytes_.push_back(static_cast<char>(value));
}

}  // namespace lockstep::monitor
