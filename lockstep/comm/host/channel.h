#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/host/gate.h"
#include "lockstep/comm/host/member.h"
#include "lockstep/comm/operation.h"
#include "lockstep/comm/shared_memory.h"

namespace lockstep::comm::host {

/// What one member of a group shows the others. Signatures alternate between two places: nobody
/// can be two operations ahead of one who has yet to compare.
struct alignas(64) MemberSlot {
  std::atomic<std::uint64_t> arrivals;    ///< at the gate
  std::atomic<std::uint64_t> operations;  ///< that are finished
  std::array<Signature, 2> signatures;
  std::array<std::int32_t, 2> num_leaves;
};

struct ChannelHeader {
  Gate gate;
  alignas(64) std::atomic<std::uint64_t> last_warned;  ///< arrival that somebody was told of
};

/// The shared memory of one group: a gate that its members pass together, what each of them is
/// about to do, and room through which data goes from one to another.
///
/// Each member has two halves of `kRoom` bytes that it writes and the others read, and the group
/// has two halves in which members publish results together. One thread uses a channel at a time.
class Channel {
 public:
  static constexpr std::size_t kRoom = std::size_t{512} << 10;

  /// Finds or makes the channel of a group's instances that are on this host, ascending, within a
  /// parent (0 is the job). `everywhere` are those on other hosts, too.
  /// Errors: as for a collective.
  Channel(std::shared_ptr<Member> member, std::vector<int> instances, std::vector<int> everywhere,
          std::uint64_t parent);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(instances_.size()); }
  std::span<const int> instances() const noexcept { return instances_; }
  /// A number that no other channel of the job's memory has.
  std::uint64_t id() const noexcept { return offset_; }
  Member& member() const noexcept { return *member_; }
  const std::shared_ptr<Member>& shared_member() const noexcept { return member_; }

  /// Announces an operation. The first `sync` after it shows whether everybody agrees on it.
  void begin(const Operation& operation);
  /// Returns when everybody in the group has called it as often. What was written before it can
  /// then be read by all. Errors: as for a collective.
  void sync();
  void finish() noexcept;

  /// The number of the operation that was begun; the first is 1.
  std::uint64_t operation() const noexcept { return operation_; }
  /// `all_reduce #182 "layer3"`
  std::string title() const;

  /// How many leaves each member brings to the operation that was begun; valid after a `sync`.
  std::vector<int> leaf_counts() const;

  /// How much of a room to fill before passing the gate: little, so that it stays in a core's own
  /// cache; but where many share a core, and each passage makes all of them take their turn, all.
  std::size_t chunk_bytes() const noexcept { return instances_per_core_ > 2 ? kRoom : kRoom / 4; }

  std::byte* room(int rank, std::uint64_t half) const noexcept;
  std::byte* results(std::uint64_t half) const noexcept;

 private:
  MemberSlot& slot(int rank) const noexcept;
  void compare_signatures();
  void wait_long(std::uint64_t arrival);
  bool has_arrived(int rank, std::uint64_t arrival) const noexcept;
  void check_peers(std::uint64_t arrival, Clock::time_point begin);
  int instance_of(int rank) const noexcept;
  [[noreturn]] void fail_as_gone(const std::vector<int>& gone);
  [[noreturn]] void fail_as_late(std::vector<int> late, Clock::time_point begin);
  void report_stall(int rank, Stall::Kind kind, const std::string& what) const;
  void warn_once(const std::vector<int>& late, std::uint64_t arrival, Clock::time_point begin);
  std::string describe_late(const std::vector<int>& late, Clock::time_point begin) const;
  std::string last_finished(int rank) const;

  std::shared_ptr<Member> member_;
  std::vector<int> instances_;
  std::vector<int> everywhere_;
  int rank_;
  std::uint64_t offset_;
  SharedMemory memory_;
  ChannelHeader* header_;
  MemberSlot* slots_;
  std::byte* rooms_;
  int instances_per_core_ = 1;

  std::uint64_t arrivals_ = 0;
  std::uint64_t operation_ = 0;  ///< its number; the first is 1
  Signature signature_{};
  std::string name_ = "meeting";  ///< of what the operation works on
  bool is_compared_ = true;
};

}  // namespace lockstep::comm::host
