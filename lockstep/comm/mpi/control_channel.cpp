#include "lockstep/comm/mpi/control_channel.h"

#include <algorithm>

#include "lockstep/comm/mpi/check_mpi.h"

namespace lockstep::comm::mpi {
namespace {

constexpr int kTag = 0;

bool is_alive_note(const ControlMessage& message) {
  const auto* note = std::get_if<hosts::Note>(&message);
  return note != nullptr && note->kind == hosts::Note::Kind::Alive;
}

}  // namespace

ControlChannel::ControlChannel(MPI_Comm communicator)
    : communicator_(communicator), incoming_(kLongestControlMessage, '\0') {
  receive_next();
}

void ControlChannel::receive_next() {
  check_mpi(::MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_BYTE,
                        MPI_ANY_SOURCE, kTag, communicator_, &receiving_),
            "MPI_Irecv");
}

void ControlChannel::send(int rank, const ControlMessage& message) {
  const bool is_sign_of_life = is_alive_note(message);
  const auto is_waiting = [&](const Sending& sending) {
    return sending.rank == rank && sending.is_sign_of_life;
  };
  if (is_sign_of_life && std::any_of(sending_.begin(), sending_.end(), is_waiting)) return;
  auto& sending =
      sending_.emplace_back(Sending{rank, is_sign_of_life, to_bytes(message), MPI_REQUEST_NULL});
  check_mpi(::MPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE,
                        rank, kTag, communicator_, &sending.request),
            "MPI_Isend");
}

std::optional<ControlChannel::Received> ControlChannel::poll() {
  drop_what_is_sent();
  int has_come = 0;
  MPI_Status status;
  check_mpi(::MPI_Test(&receiving_, &has_come, &status), "MPI_Test");
  if (has_come == 0) return std::nullopt;
  int size = 0;
  check_mpi(::MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
  auto message = message_of(std::string_view(incoming_.data(), static_cast<std::size_t>(size)),
                            status.MPI_SOURCE);
  receive_next();
  return Received{status.MPI_SOURCE, std::move(message)};
}

void ControlChannel::drop_what_is_sent() {
  std::erase_if(sending_, [](Sending& sending) {
    int is_sent = 0;
    // Those that are gone miss it: an error is as good as sent.
    const int code = ::MPI_Test(&sending.request, &is_sent, MPI_STATUS_IGNORE);
    return code != MPI_SUCCESS || is_sent != 0;
  });
}

void ControlChannel::close() {
  ::MPI_Cancel(&receiving_);
  ::MPI_Wait(&receiving_, MPI_STATUS_IGNORE);
}

}  // namespace lockstep::comm::mpi
