#include "lockstep/comm/mpi/progress.h"

#include <thread>

#include "lockstep/comm/mpi/check_mpi.h"

namespace lockstep::comm::mpi {
namespace {

using namespace std::chrono_literals;

/// After something has moved more is likely to, within this time.
constexpr auto kProgressSpinTime = 200us;
/// What is moving is asked about this often, and what has not moved for longer less often.
constexpr auto kShortRest = 50us;
constexpr auto kBeMovingFor = 100ms;
constexpr auto kLongRest = 500us;
/// How often messages are looked for where nothing else is to do.
constexpr auto kIdleRest = 50ms;
/// What is under way when it is given up gets this time to end by itself.
constexpr auto kGiveUpAfter = 200ms;

Error given_up() {
  return {ErrorKind::PeerLost, "mpi: another exchange of this process has been given up"};
}

}  // namespace

Progress::Progress(Mailbox& mailbox, const Communicators& communicators)
    : mailbox_(mailbox),
      data_(communicators.data),
      control_(communicators.control),
      last_moved_(Clock::now()) {}

Ending Progress::serve() {
  while (true) {
    const auto news = mailbox_.take_news();
    if (news.ending) {
      if (!active_.empty() || is_frozen_ || *news.ending == Ending::Leave) return Ending::Leave;
      wait_for_all_ranks();
      control_.close();
      return Ending::Finalize;
    }
    serve(news);
    const auto time = rest();
    if (time == Clock::duration::zero()) {
      std::this_thread::yield();
    } else {
      mailbox_.wait_for_news(time);
    }
  }
}

void Progress::serve(const Mailbox::News& news) {
  is_closed_ = news.is_closed;
  is_expecting_tags_ = news.is_expecting_tags;
  try {
    for (const auto& transfer : news.transfers) start(transfer);
    for (const auto& outgoing : news.messages) send(outgoing);
    if (is_frozen_ || is_closed_) return;
    move_transfers();
    move_messages();
  } catch (const Error& error) {
    freeze(error, news);
  }
}

/// MPI_Finalize waits for them, too, but hears nothing meanwhile. It also says what is wrong where
/// something is.
void Progress::wait_for_all_ranks() {
  try {
    MPI_Request all = MPI_REQUEST_NULL;
    int have_come = 0;
    check_mpi(::MPI_Ibarrier(data_, &all), "MPI_Ibarrier");
    while (true) {
      check_mpi(::MPI_Test(&all, &have_come, MPI_STATUS_IGNORE), "MPI_Test");
      if (have_come != 0) return;
      move_messages();
      std::this_thread::sleep_for(kLongRest);
    }
  } catch (const Error&) {
    return;
  }
}

void Progress::check_buffers() const {
  if (mailbox_.has_abandoned_buffers()) throw given_up();
}

void Progress::start(const std::shared_ptr<Transfer>& transfer) {
  if (is_frozen_) {
    mailbox_.note_done(*transfer, given_up());
    return;
  }
  check_buffers();
  auto& active = active_.emplace_back();
  active.transfer = transfer;
  active.requests.post(transfer->parts, data_);
  last_moved_ = Clock::now();
}

void Progress::send(const Mailbox::Outgoing& outgoing) {
  for (const int rank : outgoing.ranks) control_.send(rank, outgoing.message);
  last_moved_ = Clock::now();
  if (is_frozen_) mailbox_.note_sending(false);
}

void Progress::move_transfers() {
  for (auto active = active_.begin(); active != active_.end();) {
    active = move(*active) ? active_.erase(active) : std::next(active);
  }
}

bool Progress::move(Active& active) {
  check_buffers();
  auto& transfer = *active.transfer;
  if (!active.frozen_at && mailbox_.is_given_up(transfer)) {
    active.requests.cancel_receives();
    active.frozen_at = Clock::now() + kGiveUpAfter;
  }
  const auto ranks = active.requests.test();
  if (!ranks.empty()) {
    last_moved_ = Clock::now();
    mailbox_.note_moved_pieces(transfer, ranks);
  }
  if (active.requests.is_empty()) {
    mailbox_.note_done(transfer, std::nullopt);
    return true;
  }
  if (active.frozen_at && Clock::now() > *active.frozen_at) throw given_up();
  return false;
}

void Progress::move_messages() {
  while (auto received = control_.poll()) {
    last_moved_ = Clock::now();
    mailbox_.deliver(*received);
  }
  mailbox_.note_sending(control_.is_sending());
}

void Progress::freeze(const Error& error, const Mailbox::News& news) {
  is_frozen_ = true;
  mailbox_.note_failure();
  mailbox_.note_sending(false);
  for (const auto& active : active_) mailbox_.note_done(*active.transfer, error);
  for (const auto& transfer : news.transfers) mailbox_.note_done(*transfer, error);
}

Progress::Clock::duration Progress::rest() const {
  if (is_frozen_ || is_closed_) return 1h;
  const auto quiet_for = Clock::now() - last_moved_;
  if (quiet_for < kProgressSpinTime) return {};
  if (active_.empty() && !control_.is_sending() && !is_expecting_tags_) return kIdleRest;
  return quiet_for < kBeMovingFor ? kShortRest : kLongRest;
}

}  // namespace lockstep::comm::mpi
