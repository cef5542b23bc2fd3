#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/hosts/fabric.h"
#include "lockstep/comm/tcp/note_links.h"
#include "lockstep/comm/tcp/tcp_node.h"

namespace lockstep::comm::tcp {

/// Carries bytes over a connection of its own between each two of several hosts.
class TcpFabric final : public hosts::Fabric {
 public:
  /// Whom a fabric connects: one instance of each host, ascending.
  struct Members {
    std::vector<int> instances;
    std::vector<std::string> names;  ///< of the hosts, for messages
  };

  /// The fabric of a job's leaders, with notes.
  static std::unique_ptr<TcpFabric> of_leaders(std::shared_ptr<TcpNode> node, Members members,
                                               const LookAround& look_around);
  /// A fabric without notes, of any instances of several hosts.
  TcpFabric(std::shared_ptr<TcpNode> node, Members members, std::uint64_t id,
            const LookAround& look_around);

  int host() const noexcept override { return host_; }
  int num_hosts() const noexcept override { return static_cast<int>(members_.instances.size()); }
  void exchange(std::span<const Send> sends, std::span<const Receive> receives,
                const LookAround& look_around) override;
  std::unique_ptr<Fabric> split(std::span<const int> hosts, std::uint64_t id,
                                const LookAround& look_around) override;
  void tell(const hosts::Note& note) noexcept override;
  std::vector<hosts::Note> take_notes() override;

 private:
  std::vector<UniqueFd> connect(Purpose purpose, std::uint64_t id,
                                const LookAround& look_around) const;

  std::shared_ptr<TcpNode> node_;
  Members members_;
  int host_;
  std::shared_ptr<NoteLinks> notes_;  ///< of the job's leaders; none where this is not of them
  std::vector<UniqueFd> sockets_;     ///< by host; none for this one
};

}  // namespace lockstep::comm::tcp
