#include "lockstep/comm/mpi/mpi_fabric.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::comm::mpi {
namespace {

int own_rank(const MpiThread& thread) {
  return *thread.rank_of(thread.place().instance);
}

/// For whom ranks are waited for, where `look_around` knows them by their places among `ranks`.
hosts::Fabric::LookAround by_place(const std::vector<int>& ranks,
                                   const hosts::Fabric::LookAround& look_around) {
  return [&ranks, &look_around](std::span<const int> waiting_for) {
    std::vector<int> places;
    for (const int rank : waiting_for) {
      const auto found = std::find(ranks.begin(), ranks.end(), rank);
      places.push_back(static_cast<int>(found - ranks.begin()));
    }
    std::sort(places.begin(), places.end());
    look_around(places);
  };
}

}  // namespace

MpiFabric::MpiFabric(std::shared_ptr<MpiUse> use, std::vector<Member> members)
    : use_(std::move(use)), members_(std::move(members)) {
  const auto own = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
    return member.rank == own_rank(thread());
  });
  own_index_ = static_cast<int>(own - members_.begin());
}

std::unique_ptr<hosts::Fabric> MpiFabric::of_leaders(const std::shared_ptr<MpiUse>& use) {
  // No tag need be told: it is the first of all of them.
  std::vector<Member> members;
  for (const int rank : use->thread().leaders()) members.push_back({rank, 0});
  return std::unique_ptr<Fabric>(new MpiFabric(use, std::move(members)));
}

std::unique_ptr<hosts::Fabric> MpiFabric::of_instances(const std::shared_ptr<MpiUse>& use,
                                                       std::span<const int> instances,
                                                       std::uint64_t id,
                                                       const LookAround& look_around) {
  std::vector<int> ranks;
  for (const int instance : instances) {
    const auto rank = use->thread().rank_of(instance);
    if (!rank) {
      throw Error(ErrorKind::Unavailable,
                  fmt::format("mpi: expected instance {} to be a rank of the MPI job, found that "
                              "another speaks for its host",
                              instance),
                  "start one rank per instance, or pass --transport tcp");
    }
    ranks.push_back(*rank);
  }
  return of_ranks(use, ranks, id, by_place(ranks, look_around));
}

std::unique_ptr<hosts::Fabric> MpiFabric::of_ranks(const std::shared_ptr<MpiUse>& use,
                                                   std::span<const int> ranks, std::uint64_t id,
                                                   const LookAround& look_around) {
  auto& mailbox = use->thread().mailbox();
  const int own = own_rank(use->thread());
  std::vector<int> others;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(others),
               [&](int rank) { return rank != own; });
  const int own_tag = mailbox.new_tag();
  mailbox.send({others, FabricTag{id, own_tag}});
  const auto tags = mailbox.take_tags(id, others, look_around);
  std::vector<Member> members;
  auto tag = tags.begin();
  for (const int rank : ranks) members.push_back({rank, rank == own ? own_tag : *tag++});
  return std::unique_ptr<Fabric>(new MpiFabric(use, std::move(members)));
}

std::unique_ptr<hosts::Fabric> MpiFabric::split(std::span<const int> hosts, std::uint64_t id,
                                                const LookAround& look_around) {
  std::vector<int> all;
  for (const auto& member : members_) all.push_back(member.rank);
  std::vector<int> some;
  for (const int host : hosts) some.push_back(member(host).rank);
  return of_ranks(use_, some, id, by_place(all, look_around));
}

void MpiFabric::exchange(std::span<const Send> sends, std::span<const Receive> receives,
                         const LookAround& look_around) {
  auto transfer = std::make_shared<Transfer>();
  auto& parts = transfer->parts;
  parts.reserve(sends.size() + receives.size());
  for (const auto& [host, bytes] : sends) {
    const auto& to = member(host);
    // MPI only reads it, but a part has one type for both directions.
    parts.push_back({TransferPart::Direction::Send, to.rank, to.tag,
                     const_cast<std::byte*>(bytes.data()), bytes.size()});
  }
  for (const auto& [host, bytes] : receives) {
    parts.push_back({TransferPart::Direction::Receive, member(host).rank, member(own_index_).tag,
                     bytes.data(), bytes.size()});
  }
  transfer->open_pieces = TransferRequests::count_pieces(parts);
  if (transfer->open_pieces.empty()) return;
  std::vector<int> ranks;
  for (const auto& member : members_) ranks.push_back(member.rank);
  thread().mailbox().exchange(transfer, by_place(ranks, look_around));
}

void MpiFabric::tell(const hosts::Note& note) noexcept {
  try {
    auto others = thread().leaders();
    std::erase(others, own_rank(thread()));
    thread().mailbox().send({std::move(others), note});
  } catch (const std::bad_alloc&) {
    // Whoever has no memory for a note is about to be missed anyway.
  }
}

std::vector<hosts::Note> MpiFabric::take_notes() {
  const auto& leaders = thread().leaders();
  auto notes = thread().mailbox().take_notes();
  for (auto& note : notes) {
    note.host =
        static_cast<int>(std::find(leaders.begin(), leaders.end(), note.host) - leaders.begin());
  }
  return notes;
}

}  // namespace lockstep::comm::mpi
