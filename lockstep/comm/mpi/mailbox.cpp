#include "lockstep/comm/mpi/mailbox.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep::comm::mpi {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookAroundEvery = 100ms;
/// For how long a small exchange is worth staying awake for.
constexpr auto kMailboxSpinTime = 50us;
/// Longer than the thread that speaks MPI takes to give a transfer up.
constexpr auto kGiveUpWithin = 1s;
constexpr auto kSayGoodbyeWithin = 1s;

bool is_failure(const ControlMessage& message) {
  const auto* note = std::get_if<hosts::Note>(&message);
  return note != nullptr && note->kind == hosts::Note::Kind::Failed;
}

}  // namespace

void Mailbox::exchange(const std::shared_ptr<Transfer>& transfer, const LookAround& look_around) {
  submit(transfer);
  try {
    wait_for(*transfer, look_around);
  } catch (...) {
    give_up(*transfer);
    throw;
  }
  if (transfer->error) throw Error(*transfer->error);
}

void Mailbox::submit(const std::shared_ptr<Transfer>& transfer) {
  const std::lock_guard lock(mutex_);
  news_.transfers.push_back(transfer);
  has_news_.notify_one();
}

void Mailbox::wait_for(Transfer& transfer, const LookAround& look_around) {
  std::unique_lock lock(mutex_);
  const auto awake_until = Clock::now() + kMailboxSpinTime;
  while (!transfer.is_done && Clock::now() < awake_until) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  auto before = transfer.open_pieces;
  while (!transfer.changed.wait_for(lock, kLookAroundEvery, [&] { return transfer.is_done; })) {
    std::vector<int> waiting_for;
    for (const auto& [rank, pieces] : transfer.open_pieces) {
      if (pieces > 0 && pieces == before[rank]) waiting_for.push_back(rank);
    }
    before = transfer.open_pieces;
    lock.unlock();
    look_around(waiting_for);
    lock.lock();
  }
}

void Mailbox::give_up(Transfer& transfer) noexcept {
  std::unique_lock lock(mutex_);
  transfer.is_given_up = true;
  has_news_.notify_one();
  // The thread that speaks MPI may have no core for that long, and must not go on later.
  if (transfer.changed.wait_for(lock, kGiveUpWithin, [&] { return transfer.is_done; })) return;
  has_abandoned_buffers_ = true;
  has_failed_ = true;
}

void Mailbox::send(Outgoing outgoing) {
  const std::lock_guard lock(mutex_);
  has_failed_ = has_failed_ || is_failure(outgoing.message);
  news_.messages.push_back(std::move(outgoing));
  has_news_.notify_one();
}

std::vector<hosts::Note> Mailbox::take_notes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

int Mailbox::new_tag() {
  const std::lock_guard lock(mutex_);
  return ++last_tag_;
}

std::vector<int> Mailbox::take_tags(std::uint64_t fabric, std::span<const int> ranks,
                                    const LookAround& look_around) {
  std::vector<int> missing;
  const auto find_missing = [&] {
    missing.clear();
    std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(missing), [&](int host) {
      return !tags_.contains({fabric, host});
    });
    return missing.empty();
  };
  std::unique_lock lock(mutex_);
  news_.is_expecting_tags = true;
  while (!has_delivered_.wait_for(lock, kLookAroundEvery, find_missing)) {
    lock.unlock();
    look_around(missing);
    lock.lock();
  }
  std::vector<int> tags;
  for (const int rank : ranks) {
    const auto sent = tags_.find({fabric, rank});
    tags.push_back(sent->second.front());
    sent->second.pop_front();
    if (sent->second.empty()) tags_.erase(sent);
  }
  news_.is_expecting_tags = false;
  return tags;
}

void Mailbox::close() noexcept {
  std::unique_lock lock(mutex_);
  has_delivered_.wait_for(lock, kSayGoodbyeWithin,
                          [&] { return news_.messages.empty() && !is_sending_; });
  news_.is_closed = true;
  has_news_.notify_one();
}

void Mailbox::end(Ending ending) noexcept {
  const std::lock_guard lock(mutex_);
  news_.ending = ending;
  has_news_.notify_one();
}

bool Mailbox::has_failed() const {
  const std::lock_guard lock(mutex_);
  return has_failed_;
}

Mailbox::News Mailbox::take_news() {
  const std::lock_guard lock(mutex_);
  is_sending_ = is_sending_ || !news_.messages.empty();
  News news = news_;
  news_.transfers.clear();
  news_.messages.clear();
  return news;
}

bool Mailbox::has_news() const {
  return !news_.transfers.empty() || !news_.messages.empty() || news_.ending;
}

void Mailbox::wait_for_news(Clock::duration longest) {
  std::unique_lock lock(mutex_);
  has_news_.wait_for(lock, longest, [&] { return has_news(); });
}

bool Mailbox::is_given_up(const Transfer& transfer) const {
  const std::lock_guard lock(mutex_);
  return transfer.is_given_up;
}

bool Mailbox::has_abandoned_buffers() const {
  const std::lock_guard lock(mutex_);
  return has_abandoned_buffers_;
}

Mailbox::Clock::time_point Mailbox::last_heard() const {
  const std::lock_guard lock(mutex_);
  return last_heard_;
}

void Mailbox::note_moved_pieces(Transfer& transfer, std::span<const int> ranks) {
  const std::lock_guard lock(mutex_);
  for (const int rank : ranks) --transfer.open_pieces[rank];
}

void Mailbox::note_done(Transfer& transfer, const std::optional<Error>& error) {
  const std::lock_guard lock(mutex_);
  if (transfer.is_done) return;
  transfer.error = error;
  transfer.is_done = true;
  transfer.changed.notify_all();
}

void Mailbox::note_sending(bool is_sending) {
  const std::lock_guard lock(mutex_);
  if (is_sending_ == is_sending) return;
  is_sending_ = is_sending;
  has_delivered_.notify_all();
}

void Mailbox::note_failure() {
  const std::lock_guard lock(mutex_);
  has_failed_ = true;
}

void Mailbox::deliver(const ControlChannel::Received& received) {
  const std::lock_guard lock(mutex_);
  last_heard_ = Clock::now();
  has_failed_ = has_failed_ || is_failure(received.message);
  if (const auto* tag = std::get_if<FabricTag>(&received.message)) {
    tags_[{tag->fabric, received.rank}].push_back(tag->tag);
  } else {
    keep(std::get<hosts::Note>(received.message));
  }
  has_delivered_.notify_all();
}

void Mailbox::keep(const hosts::Note& note) {
  // Of several signs of life the last one says all.
  if (note.kind == hosts::Note::Kind::Alive) {
    std::erase_if(notes_, [&](const hosts::Note& old) {
      return old.kind == note.kind && old.host == note.host;
    });
  }
  notes_.push_back(note);
}

}  // namespace lockstep::comm::mpi
