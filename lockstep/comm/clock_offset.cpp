#include "lockstep/comm/clock_offset.h"

#include <algorithm>
#include <limits>

namespace lockstep::comm {

std::int64_t clock_offset(Communicator& communicator, int other,
                          const std::function<std::int64_t()>& now) {
  constexpr int kRounds = 16;
  const int rank = communicator.rank();
  // From `other` to rank 0 and from rank 0 to `other`, each by the clocks of both ends.
  auto back = std::numeric_limits<std::int64_t>::max();
  auto there = back;
  const auto send = [&](int from, int to, std::int64_t& shortest) {
    std::int64_t time = rank == from ? now() : 0;
    communicator.broadcast({&time, 1, DataType::I64, "clock"}, from);
    if (rank == to) shortest = std::min(shortest, now() - time);
  };
  // The receiver of a message sends the next one, and the other end already waits for it.
  for (int round = 0; round < kRounds; ++round) {
    send(other, 0, back);
    send(0, other, there);
  }
  communicator.broadcast({&there, 1, DataType::I64, "clock"}, other);
  return rank == 0 ? (back - there) / 2 : 0;
}

}  // namespace lockstep::comm
