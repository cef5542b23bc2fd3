#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/comm/operation.h"
#include "lockstep/comm/shared_memory.h"
#include "lockstep/comm/wait_options.h"

namespace lockstep::comm {

/// Carries the collectives of one group between its instances.
///
/// One thread at a time calls `execute`, `group` and `allocate`; any thread calls `heartbeat`.
/// Operations have been checked by the caller; errors are those of `Communicator`.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const noexcept = 0;
  /// The job's numbers of the group's instances, by rank.
  virtual std::span<const int> instances() const noexcept = 0;
  /// The host that each of them is on, by rank: ascending numbers from 0 on, in order of the first
  /// instance on each.
  virtual std::span<const int> hosts() const noexcept = 0;

  virtual void execute(const Operation& operation) = 0;
  virtual void heartbeat(std::string_view doing) noexcept = 0;
  /// Makes this the error that everybody gets, unless there is one.
  virtual void report_failure(const Error& error) noexcept = 0;
  virtual std::unique_ptr<Transport> group(std::span<const int> instances) = 0;
  /// For instances of one host.
  virtual SharedMemory allocate(std::size_t bytes, std::string_view name) = 0;
  virtual KeptPiece keep(std::size_t bytes, std::string_view name, std::uint64_t fingerprint) = 0;
  virtual void note_step(std::int64_t step) noexcept = 0;
};

}  // namespace lockstep::comm
