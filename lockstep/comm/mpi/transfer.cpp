#include "lockstep/comm/mpi/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "lockstep/comm/mpi/check_mpi.h"

namespace lockstep::comm::mpi {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

}  // namespace

std::map<int, int> TransferRequests::count_pieces(const std::vector<TransferPart>& parts) {
  std::map<int, int> pieces;
  for (const auto& part : parts) {
    if (part.size == 0) continue;
    pieces[part.rank] += static_cast<int>((part.size + kPieceBytes - 1) / kPieceBytes);
  }
  return pieces;
}

void TransferRequests::post(const std::vector<TransferPart>& parts, MPI_Comm communicator) {
  // Receives first: what then arrives has a place, and is not kept aside.
  for (const auto direction : {TransferPart::Direction::Receive, TransferPart::Direction::Send}) {
    for (const auto& part : parts) {
      if (part.direction != direction) continue;
      for (std::size_t offset = 0; offset < part.size; offset += kPieceBytes) {
        const auto size = std::min(kPieceBytes, part.size - offset);
        post_piece(part, offset, static_cast<int>(size), communicator);
      }
    }
  }
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
}

void TransferRequests::post_piece(const TransferPart& part, std::size_t offset, int size,
                                  MPI_Comm communicator) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::byte* bytes = part.bytes + offset;
  if (part.direction == TransferPart::Direction::Send) {
    check_mpi(::MPI_Isend(bytes, size, MPI_BYTE, part.rank, part.tag, communicator, &request),
              "MPI_Isend");
  } else {
    check_mpi(::MPI_Irecv(bytes, size, MPI_BYTE, part.rank, part.tag, communicator, &request),
              "MPI_Irecv");
  }
  requests_.push_back(request);
  pieces_.push_back({part.direction, part.rank, size});
}

std::vector<int> TransferRequests::test() {
  std::vector<int> ranks;
  if (requests_.empty()) return ranks;
  int count = 0;
  const int code = ::MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                  indices_.data(), statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return ranks;
  for (int i = 0; i < count; ++i) {
    const auto& piece = pieces_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
    const auto& status = statuses_[static_cast<std::size_t>(i)];
    check(piece, status, code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS);
    ranks.push_back(piece.rank);
  }
  // From the last on, so that what moves into a gap is not one that goes, too.
  std::sort(indices_.begin(), indices_.begin() + count, std::greater<>());
  for (int i = 0; i < count; ++i) {
    const auto gap = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    requests_[gap] = requests_.back();
    pieces_[gap] = pieces_.back();
    requests_.pop_back();
    pieces_.pop_back();
  }
  return ranks;
}

void TransferRequests::check(const Piece& piece, const MPI_Status& status, int code) const {
  if (is_cancelled_ || code == MPI_ERR_PENDING) return;
  if (code != MPI_SUCCESS) {
    throw Error(ErrorKind::PeerLost,
                fmt::format("mpi: expected {} bytes to move {} rank {}, found: {}", piece.size,
                            piece.direction == TransferPart::Direction::Send ? "to" : "from",
                            piece.rank, mpi_text(code)));
  }
  if (piece.direction == TransferPart::Direction::Send) return;
  int received = 0;
  check_mpi(::MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  if (received == piece.size) return;
  throw Error(ErrorKind::Bug, fmt::format("mpi: expected {} bytes from rank {}, found {}",
                                          piece.size, piece.rank, received));
}

void TransferRequests::cancel_receives() {
  is_cancelled_ = true;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (pieces_[i].direction == TransferPart::Direction::Receive) ::MPI_Cancel(&requests_[i]);
  }
}

}  // namespace lockstep::comm::mpi
