#pragma once

#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "lockstep/cli/bench_collective.h"

namespace lockstep::cli {

/// What `lockstep bench comm` and the workers that it measures say to each other, in packets over a
/// socket in the job's folder. A worker begins with its rank (`std::int32_t`); then it answers
/// requests until the driver closes the socket. Both come from one build, so structs travel as they
/// are.
struct BenchRequest {
  enum class Task : std::uint8_t { Verify, Measure };

  Task task = Task::Measure;
  Collective collective = Collective::AllReduce;
  std::int32_t repetitions = 1;
  std::int64_t bytes = 0;
};

/// The answer to `Verify`: the first wrong element, or -1 where all are right. The answer to
/// `Measure` is a `Nanoseconds` for each repetition.
struct BenchVerdict {
  std::int64_t first_wrong = -1;
  float expected = 0;
  float found = 0;
};

using Nanoseconds = std::int64_t;

/// More repetitions than this do not fit into one answer.
inline constexpr int kMostRepetitions = 1024;

/// Where the driver of the job with this folder listens.
/// Throws `Io` where the path is longer than the kernel takes.
sockaddr_un driver_address(const std::string& folder);

/// Returns false where the other side is gone.
[[nodiscard]] bool send_packet(int socket, std::span<const std::byte> packet);

/// Blocks in the kernel until a packet comes. Returns its size, 0 where the other side is gone.
std::size_t receive_packet(int socket, std::span<std::byte> into);

/// The bytes of a value that may travel as it is.
template <typename Value>
std::span<std::byte> bytes_of(Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace lockstep::cli
