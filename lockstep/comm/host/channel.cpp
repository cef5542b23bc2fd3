#include "lockstep/comm/host/channel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "lockstep/comm/host/channel_directory.h"

namespace lockstep::comm::host {
namespace {

using namespace std::chrono_literals;

/// How often a sleeper looks around: a peer that has died is noticed by then.
constexpr auto kLookAround = 100ms;
constexpr auto kSignOfAStop = 1s;

std::size_t header_bytes(int size) {
  return round_up(sizeof(ChannelHeader) + static_cast<std::size_t>(size) * sizeof(MemberSlot),
                  kPage);
}

std::size_t channel_bytes(int size) {
  // Alone, nothing goes from one to another.
  const auto rooms = size == 1 ? 0 : static_cast<std::size_t>(size) + 1;
  return header_bytes(size) + rooms * 2 * Channel::kRoom;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Channel::Channel(std::shared_ptr<Member> member, std::vector<int> instances,
                 std::vector<int> everywhere, std::uint64_t parent)
    : member_(std::move(member)),
      instances_(std::move(instances)),
      everywhere_(std::move(everywhere)),
      rank_(static_cast<int>(std::find(instances_.begin(), instances_.end(), member_->instance()) -
                             instances_.begin())),
      offset_(
          find_channel(*member_, {parent, instances_.front(), everywhere_}, channel_bytes(size()))),
      memory_(member_->memory().map(offset_, channel_bytes(size()))),
      header_(reinterpret_cast<ChannelHeader*>(memory_.data())),
      slots_(reinterpret_cast<MemberSlot*>(memory_.data() + sizeof(ChannelHeader))),
      rooms_(memory_.data() + header_bytes(size())) {
  sync();
  // Only now have all of them said which cores they run on.
  instances_per_core_ = member_->instances_per_core(instances_);
}

MemberSlot& Channel::slot(int rank) const noexcept {
  return slots_[rank];
}

std::byte* Channel::room(int rank, std::uint64_t half) const noexcept {
  return rooms_ + (static_cast<std::size_t>(rank) * 2 + half % 2) * kRoom;
}

std::byte* Channel::results(std::uint64_t half) const noexcept {
  return room(size(), half);
}

void Channel::begin(const Operation& operation) {
  member_->throw_if_failed();
  if (operation.caller != 0) member_->note_caller(operation.caller);
  ++operation_;
  signature_ = signature_of(operation);
  name_ = operation.name;
  is_compared_ = false;
  auto& mine = slot(rank_);
  mine.signatures[operation_ % 2] = signature_;
  mine.num_leaves[operation_ % 2] = static_cast<std::int32_t>(operation.inputs.size());
}

void Channel::finish() noexcept {
  slot(rank_).operations.store(operation_, std::memory_order_relaxed);
}

void Channel::sync() {
  const auto arrival = ++arrivals_;
  const bool is_open = header_->gate.arrive(static_cast<std::uint32_t>(size()));
  // Only now: who dies before it is through must not be taken for one who has arrived.
  slot(rank_).arrivals.store(arrival, std::memory_order_release);
  const auto passage = static_cast<std::uint32_t>(arrival - 1);
  if (!is_open && !header_->gate.wait_briefly(passage, patience(instances_per_core_))) {
    wait_long(arrival);
  }
  if (!is_compared_) compare_signatures();
}

std::vector<int> Channel::leaf_counts() const {
  std::vector<int> counts;
  for (int rank = 0; rank < size(); ++rank) {
    counts.push_back(slot(rank).num_leaves[operation_ % 2]);
  }
  return counts;
}

/// Everybody compares all with the first, so everybody comes to the same end.
void Channel::compare_signatures() {
  is_compared_ = true;
  const auto& first = slot(0).signatures[operation_ % 2];
  for (int rank = 1; rank < size(); ++rank) {
    const auto& other = slot(rank).signatures[operation_ % 2];
    if (other == first) continue;
    member_->fail(
        Error(ErrorKind::Options,
              fmt::format("collective #{}: instances disagree: {} called {}, {} called {}",
                          operation_, member_->name_of(instances_.front()), describe(first),
                          member_->name_of(instance_of(rank)), describe(other)),
              "all instances of a group must call the same collectives in the same order"));
  }
}

bool Channel::has_arrived(int rank, std::uint64_t arrival) const noexcept {
  return slot(rank).arrivals.load(std::memory_order_acquire) >= arrival;
}

void Channel::wait_long(std::uint64_t arrival) {
  auto begin = Clock::now();
  auto last_look = begin;
  member_->note_wait(title());
  while (!header_->gate.sleep(static_cast<std::uint32_t>(arrival - 1), kLookAround)) {
    // Who was stopped itself, with the whole job perhaps, has not waited meanwhile.
    const auto now = Clock::now();
    if (now - std::exchange(last_look, now) > kSignOfAStop) begin = now;
    member_->throw_if_failed();
    check_peers(arrival, begin);
  }
  member_->note_return();
}

std::string Channel::title() const {
  auto text = operation_ == 0 ? name_ : fmt::format("{} #{}", name_of(signature_.kind), operation_);
  if (operation_ > 0 && !name_.empty()) text += fmt::format(" \"{}\"", name_);
  if (std::ssize(everywhere_) < member_->num_instances())
    text += fmt::format(" of instances {}", fmt::join(everywhere_, ","));
  return text;
}

int Channel::instance_of(int rank) const noexcept {
  return instances_[static_cast<std::size_t>(rank)];
}

void Channel::check_peers(std::uint64_t arrival, Clock::time_point begin) {
  const auto& options = member_->options();
  const bool has_deadline = options.stall_timeout.count() > 0;
  std::vector<int> gone;
  std::vector<int> late;
  std::vector<int> overdue;
  auto newest_heartbeat = Clock::time_point();
  const auto passage = static_cast<std::uint32_t>(arrival - 1);
  for (int rank = 0; rank < size(); ++rank) {
    const int instance = instance_of(rank);
    // Nobody leaves before the gate opens, whether it has arrived or not. It may have opened, and
    // the instance ended, since we looked.
    if (member_->is_gone(instance) && !header_->gate.is_open(passage)) gone.push_back(rank);
    if (has_arrived(rank, arrival)) continue;
    const auto heartbeat = member_->last_heartbeat(instance);
    newest_heartbeat = std::max(newest_heartbeat, heartbeat);
    // Whoever waits for other hosts gives up on them by itself, and knows whom to blame.
    const auto blameless = std::max(heartbeat, member_->last_wait_for_hosts(instance));
    const auto waited = Clock::now() - std::max(begin, blameless);
    if (waited >= options.warn_after) late.push_back(rank);
    if (has_deadline && waited >= options.stall_timeout) overdue.push_back(rank);
  }
  if (!gone.empty()) fail_as_gone(gone);
  if (!overdue.empty()) fail_as_late(overdue, begin);
  if (!late.empty()) warn_once(late, arrival, begin);
  member_->pass_on_heartbeat(newest_heartbeat);
}

std::string Channel::last_finished(int rank) const {
  return fmt::format("it finished #{}", slot(rank).operations.load(std::memory_order_relaxed));
}

void Channel::fail_as_gone(const std::vector<int>& gone) {
  std::vector<std::string> texts;
  for (const int rank : gone) {
    texts.push_back(
        fmt::format("{} is gone; {}", member_->name_of(instance_of(rank)), last_finished(rank)));
  }
  member_->fail(Error(ErrorKind::PeerLost, fmt::format("{}: {}", title(), fmt::join(texts, "; ")),
                      "its own output says why; this instance is only a victim"));
}

std::string Channel::describe_late(const std::vector<int>& late, Clock::time_point begin) const {
  constexpr std::size_t kMostNames = 8;
  std::vector<std::string> texts;
  for (const int rank : late) {
    if (texts.size() == kMostNames) {
      texts.push_back(fmt::format("and {} more", late.size() - kMostNames));
      break;
    }
    texts.push_back(fmt::format("{} has not arrived after {:.0f} s; {}{}",
                                member_->name_of(instance_of(rank)), seconds_since(begin),
                                last_finished(rank), member_->condition_of(instance_of(rank))));
  }
  return fmt::format("{}: {}", title(), fmt::join(texts, "; "));
}

void Channel::fail_as_late(std::vector<int> late, Clock::time_point begin) {
  // Who waits for others, in another group, is rather not the cause.
  std::stable_partition(late.begin(), late.end(),
                        [&](int rank) { return !member_->is_waiting(instance_of(rank)); });
  const int instance = instance_of(late.front());
  const auto what = describe_late(late, begin);
  member_->fail(Error(ErrorKind::Timeout, what,
                      "raise --stall-timeout, or let an instance that works long call "
                      "Communicator::heartbeat"),
                [&] {  // called for whoever gives the verdict
                  report_stall(late.front(), Stall::Kind::Overdue, what);
                  const auto stack = member_->stack_of(instance);
                  return stack.empty()
                             ? std::string()
                             : fmt::format("\n  stack of instance {}:\n{}", instance, stack);
                });
}

void Channel::report_stall(int rank, Stall::Kind kind, const std::string& what) const {
  const auto& options = member_->options();
  auto* kept = member_->kept_memory();
  if (kind == Stall::Kind::Overdue && kept != nullptr) kept->note_given_up(instance_of(rank));
  if (options.stalled) options.stalled({instance_of(rank), kind, what});
}

/// One line for the whole group, from whoever notices first.
void Channel::warn_once(const std::vector<int>& late, std::uint64_t arrival,
                        Clock::time_point begin) {
  auto last = header_->last_warned.load();
  if (last == arrival || !header_->last_warned.compare_exchange_strong(last, arrival)) return;
  const auto what = describe_late(late, begin);
  if (member_->options().warn) member_->options().warn(what);
  for (const int rank : late) report_stall(rank, Stall::Kind::Late, what);
}

}  // namespace lockstep::comm::host
