#pragma once

#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "bench/comm/collective.h"

namespace lockstep::bench {

/// A request of `lockstep bench comm` to a worker. They exchange packets over a socket in the job's
/// folder. First the worker sends its rank (`std::int32_t`). Then it answers requests until the
/// driver closes the socket. Driver and workers come from one build, so structs are sent unchanged.
struct Request {
  enum class Task : std::uint8_t { Verify, Measure };

  Task task = Task::Measure;
  Collective collective = Collective::AllReduce;
  std::int32_t repetitions = 1;
  std::int64_t bytes = 0;
};

/// The answer to `Verify`: the first wrong element, or -1 if all are right. The answer to `Measure`
/// is one `Nanoseconds` per repetition.
struct Verdict {
  std::int64_t first_wrong = -1;
  float expected = 0;
  float found = 0;
};

using Nanoseconds = std::int64_t;

/// The number of repetitions that fit into one answer.
inline constexpr int kMostRepetitions = 1024;

/// The address on which the driver of the job with this folder listens.
/// Throws `Io` if the path is too long for the kernel.
sockaddr_un driver_address(const std::string& folder);

/// Returns false if the other side has closed the socket.
[[nodiscard]] bool send_packet(int socket, std::span<const std::byte> packet);

/// Blocks until a packet comes. Returns its size, or 0 if the other side has closed the socket.
std::size_t receive_packet(int socket, std::span<std::byte> into);

/// The bytes of a value that can be sent unchanged.
template <typename Value>
std::span<std::byte> bytes_of(Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace lockstep::bench
