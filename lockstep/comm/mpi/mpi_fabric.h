#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/hosts/fabric.h"
#include "lockstep/comm/mpi/mpi_thread.h"

namespace lockstep::comm::mpi {

/// The use that the fabrics and the session of a process make of MPI: with the last of them it
/// ends.
class MpiUse {
 public:
  explicit MpiUse(std::shared_ptr<MpiThread> thread) : thread_(std::move(thread)) {}
  ~MpiUse() { thread_->mailbox().close(); }
  MpiUse(const MpiUse&) = delete;
  MpiUse& operator=(const MpiUse&) = delete;

  MpiThread& thread() { return *thread_; }

 private:
  std::shared_ptr<MpiThread> thread_;
};

/// Between ranks of one MPI job.
///
/// All fabrics share a communicator; each rank has a tag of its own for each fabric, which it tells
/// those that send to it. So a fabric is made without a word from ranks that are not in it, and
/// without an MPI call that waits.
class MpiFabric final : public hosts::Fabric {
 public:
  /// Between the leaders of all hosts.
  static std::unique_ptr<Fabric> of_leaders(const std::shared_ptr<MpiUse>& use);
  /// Between instances, which all of them make with the same `id`. Errors: `Unavailable` where one
  /// is no rank.
  static std::unique_ptr<Fabric> of_instances(const std::shared_ptr<MpiUse>& use,
                                              std::span<const int> instances, std::uint64_t id,
                                              const LookAround& look_around);

  int host() const noexcept override { return own_index_; }
  int num_hosts() const noexcept override { return static_cast<int>(members_.size()); }
  void exchange(std::span<const Send> sends, std::span<const Receive> receives,
                const LookAround& look_around) override;
  std::unique_ptr<Fabric> split(std::span<const int> hosts, std::uint64_t id,
                                const LookAround& look_around) override;
  void tell(const hosts::Note& note) noexcept override;
  std::vector<hosts::Note> take_notes() override;

 private:
  struct Member {
    int rank;
    int tag;
  };

  MpiFabric(std::shared_ptr<MpiUse> use, std::vector<Member> members);

  static std::unique_ptr<Fabric> of_ranks(const std::shared_ptr<MpiUse>& use,
                                          std::span<const int> ranks, std::uint64_t id,
                                          const LookAround& look_around);
  const Member& member(int host) const { return members_[static_cast<std::size_t>(host)]; }
  MpiThread& thread() { return use_->thread(); }

  std::shared_ptr<MpiUse> use_;
  std::vector<Member> members_;
  int own_index_;
};

}  // namespace lockstep::comm::mpi
