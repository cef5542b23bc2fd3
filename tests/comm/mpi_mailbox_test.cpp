#include <gtest/gtest.h>

#include <thread>

#include "lockstep/comm/mpi/mailbox.h"

namespace lockstep::comm::mpi {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<Transfer> transfer_from(int rank, int pieces) {
  auto transfer = std::make_shared<Transfer>();
  transfer->open_pieces[rank] = pieces;
  return transfer;
}

void give_up(std::span<const int>) {
  throw Error(ErrorKind::Timeout, "enough");
}

TEST(MailboxTest, BuffersThatMpiDoesNotGiveBackInTimeAreAbandoned) {
  Mailbox mailbox;
  EXPECT_THROW(mailbox.exchange(transfer_from(1, 1), give_up), Error);
  EXPECT_TRUE(mailbox.has_abandoned_buffers());
  EXPECT_TRUE(mailbox.has_failed());
}

TEST(MailboxTest, BuffersThatMpiGivesBackAreFree) {
  Mailbox mailbox;
  const auto transfer = transfer_from(1, 1);
  std::thread speaker([&] {
    while (!mailbox.is_given_up(*transfer)) std::this_thread::sleep_for(1ms);
    mailbox.note_done(*transfer, std::nullopt);
  });
  EXPECT_THROW(mailbox.exchange(transfer, give_up), Error);
  speaker.join();
  EXPECT_FALSE(mailbox.has_abandoned_buffers());
}

TEST(MailboxTest, NamesThoseOfWhomNothingHasMovedSinceTheLastLook) {
  Mailbox mailbox;
  const auto transfer = transfer_from(1, 2);
  const std::vector<int> other{1};
  std::vector<std::vector<int>> looks;
  mailbox.exchange(transfer, [&](std::span<const int> waiting_for) {
    looks.emplace_back(waiting_for.begin(), waiting_for.end());
    if (looks.size() == 1) mailbox.note_moved_pieces(*transfer, other);
    if (looks.size() == 3) mailbox.note_done(*transfer, std::nullopt);
  });
  EXPECT_EQ(looks, (std::vector<std::vector<int>>{{1}, {}, {1}}));
}

}  // namespace
}  // namespace lockstep::comm::mpi
