#include "lockstep/comm/mpi/mpi_fabric.h"

#include <algorithm>

namespace lockstep::comm::mpi {

void MpiFabric::exchange(std::span<const Send> sends, std::span<const Receive> receives,
                         const LookAround& look_around) {
  auto transfer = std::make_shared<Transfer>();
  auto& parts = transfer->parts;
  parts.reserve(sends.size() + receives.size());
  for (const auto& [host, bytes] : sends) {
    const auto& to = member(host);
    // MPI only reads it, but has one type for both directions.
    parts.push_back({TransferPart::Direction::Send, to.host, to.tag,
                     const_cast<std::byte*>(bytes.data()), bytes.size()});
  }
  for (const auto& [host, bytes] : receives) {
    parts.push_back({TransferPart::Direction::Receive, member(host).host, member(own_index_).tag,
                     bytes.data(), bytes.size()});
  }
  transfer->open_pieces = TransferRequests::count_pieces(parts);
  if (transfer->open_pieces.empty()) return;
  mailbox().exchange(transfer, by_index(look_around));
}

std::unique_ptr<hosts::Fabric> MpiFabric::split(std::span<const int> hosts, std::uint64_t id,
                                                const LookAround& look_around) {
  std::vector<int> others;
  for (const int host : hosts) {
    if (host != own_index_) others.push_back(member(host).host);
  }
  const int own_tag = mailbox().new_tag();
  mailbox().send({others, FabricTag{id, own_tag}});
  const auto tags = mailbox().take_tags(id, others, by_index(look_around));
  std::vector<Member> members;
  int own_index = 0;
  auto tag = tags.begin();
  for (const int host : hosts) {
    if (host == own_index_) own_index = static_cast<int>(members.size());
    members.push_back({member(host).host, host == own_index_ ? own_tag : *tag++});
  }
  return std::make_unique<MpiFabric>(use_, std::move(members), own_index);
}

void MpiFabric::tell(const hosts::Note& note) noexcept {
  auto& thread = use_->thread();
  try {
    std::vector<int> others;
    for (int host = 0; host < static_cast<int>(thread.map().hosts.size()); ++host) {
      if (host != thread.host()) others.push_back(host);
    }
    mailbox().send({std::move(others), note});
  } catch (const std::bad_alloc&) {
    // Whoever has no memory for a note is about to be missed anyway.
  }
}

std::vector<hosts::Note> MpiFabric::take_notes() {
  return mailbox().take_notes();
}

hosts::Fabric::LookAround MpiFabric::by_index(const LookAround& look_around) const {
  return [this, &look_around](std::span<const int> waiting_for) {
    std::vector<int> indices;
    for (int index = 0; index < num_hosts(); ++index) {
      if (std::find(waiting_for.begin(), waiting_for.end(), member(index).host) !=
          waiting_for.end()) {
        indices.push_back(index);
      }
    }
    look_around(indices);
  };
}

}  // namespace lockstep::comm::mpi
