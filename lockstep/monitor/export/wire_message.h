#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::monitor {

/// A message in the wire format of Protocol Buffers, put together field by field.
///
/// Written here instead of taken from protobuf because we write few fields of a few messages that
/// will not change any more: that needs no schema compiler at build time and no library of 3 MiB,
/// whose version then has to be the one that libtorch was built with.
class WireMessage {
 public:
  WireMessage& add_integer(int field, std::int64_t value);
  WireMessage& add_float(int field, float value);
  WireMessage& add_double(int field, double value);
  /// A string, bytes or a message within this one.
  WireMessage& add_bytes(int field, std::string_view bytes);
  WireMessage& add_message(int field, const WireMessage& message);

  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void add_varint(std::uint64_t value);

  std::string bytes_;
};

/// Appends a number as its bytes, lowest first.
void append_little_endian(std::string& bytes, std::uint64_t value, int count);

}  // namespace lockstep::monitor
