#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::comm::mpi {

/// Numbers and texts one after another, for ranks of the same build on machines of one kind.
class ByteWriter {
 public:
  void number(std::int64_t value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes_.append(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads them back in the same order.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::int64_t number() {
    std::int64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = static_cast<std::size_t>(number());
    return std::string(take(size));
  }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) {
      throw Error(ErrorKind::Bug, "mpi: a message ends early",
                  "start the same build of lockstep on all hosts");
    }
    const auto taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
};

}  // namespace lockstep::comm::mpi
