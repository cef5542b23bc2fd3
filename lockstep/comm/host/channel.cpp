#include "lockstep/comm/host/channel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "lockstep/comm/host/channel_directory.h"

namespace lockstep::comm::host {
namespace {

using namespace std::chrono_literals;

/// How often a sleeper looks around: a peer that has died is noticed by then.
constexpr auto kLookAround = 100ms;

std::size_t header_bytes(int size) {
  return round_up(sizeof(Gate) + static_cast<std::size_t>(size) * sizeof(MemberSlot), kPage);
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

Channel::Channel(std::shared_ptr<Member> member, std::vector<int> instances, std::uint64_t parent)
    : member_(std::move(member)),
      instances_(std::move(instances)),
      rank_(static_cast<int>(std::find(instances_.begin(), instances_.end(), member_->instance()) -
                             instances_.begin())),
      offset_(find_channel(*member_, {parent, instances_}, channel_bytes(size()))),
      memory_(member_->memory().map(offset_, channel_bytes(size()))),
      gate_(reinterpret_cast<Gate*>(memory_.data())),
      slots_(reinterpret_cast<MemberSlot*>(memory_.data() + sizeof(Gate))),
      rooms_(memory_.data() + header_bytes(size())) {
  name_ = "meeting";
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
  slot(rank_).arrivals.store(arrival, std::memory_order_relaxed);
  const auto passage = static_cast<std::uint32_t>(arrival - 1);
  if (!gate_->arrive(static_cast<std::uint32_t>(size())) &&
      !gate_->wait_briefly(passage, patience(instances_per_core_))) {
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
    member_->fail(Error(
        ErrorKind::Options,
        fmt::format("collective #{}: instances disagree: {} called {}, {} called {}", operation_,
                    member_->name_of(instances_.front()), describe(first),
                    member_->name_of(instances_[static_cast<std::size_t>(rank)]), describe(other)),
        "all instances of a group must call the same collectives in the same order"));
  }
}

bool Channel::has_arrived(int rank, std::uint64_t arrival) const noexcept {
  return slot(rank).arrivals.load(std::memory_order_acquire) >= arrival;
}

void Channel::wait_long(std::uint64_t arrival) {
  const auto begin = Clock::now();
  member_->note_wait("waits in " + title());
  while (!gate_->sleep(static_cast<std::uint32_t>(arrival - 1), kLookAround)) {
    member_->throw_if_failed();
    check_peers(arrival, begin);
  }
  member_->note_return();
}

/// `all_reduce #182 "layer3"`
std::string Channel::title() const {
  auto text = operation_ == 0 ? name_ : fmt::format("{} #{}", name_of(signature_.kind), operation_);
  if (operation_ > 0 && !name_.empty()) text += fmt::format(" \"{}\"", name_);
  if (size() < member_->num_instances())
    text += fmt::format(" of instances {}", fmt::join(instances_, ","));
  return text;
}

void Channel::check_peers(std::uint64_t arrival, Clock::time_point begin) {
  const auto& options = member_->options();
  std::vector<int> late;
  Clock::duration lateness = Clock::duration::max();
  for (int rank = 0; rank < size(); ++rank) {
    if (has_arrived(rank, arrival)) continue;
    const int instance = instances_[static_cast<std::size_t>(rank)];
    // It may have arrived, and then ended, since we looked.
    if (member_->is_gone(instance) && !has_arrived(rank, arrival)) fail_as_gone(rank);
    late.push_back(rank);
    // A heartbeat begins the wait anew.
    lateness =
        std::min(lateness, Clock::now() - std::max(begin, member_->last_heartbeat(instance)));
  }
  if (late.empty()) return;
  const bool has_deadline = options.stall_timeout.count() > 0;
  if (has_deadline && lateness >= options.stall_timeout) fail_as_late(late, begin);
  if (lateness >= options.warn_after) warn_once(late, arrival, begin);
}

void Channel::fail_as_gone(int rank) {
  const int instance = instances_[static_cast<std::size_t>(rank)];
  const auto finished = slot(rank).operations.load(std::memory_order_relaxed);
  member_->fail(Error(
      ErrorKind::PeerLost,
      fmt::format("{}: {} is gone; it finished #{}", title(), member_->name_of(instance), finished),
      "its own output says why; this instance is only a victim"));
}

std::string Channel::describe_late(const std::vector<int>& late, Clock::time_point begin) const {
  std::vector<std::string> texts;
  for (const int rank : late) {
    const int instance = instances_[static_cast<std::size_t>(rank)];
    texts.push_back(fmt::format("{} has not arrived after {:.0f} s; it finished #{}{}",
                                member_->name_of(instance), seconds_since(begin),
                                slot(rank).operations.load(std::memory_order_relaxed),
                                member_->condition_of(instance)));
  }
  return fmt::format("{}: {}", title(), fmt::join(texts, "; "));
}

void Channel::fail_as_late(const std::vector<int>& late, Clock::time_point begin) {
  const int instance = instances_[static_cast<std::size_t>(late.front())];
  member_->fail(Error(ErrorKind::Timeout, describe_late(late, begin),
                      "raise --stall-timeout, or let an instance that works long call "
                      "Communicator::heartbeat"),
                [&] {
                  const auto stack = member_->stack_of(instance);
                  return stack.empty()
                             ? std::string()
                             : fmt::format("\n  instance {} stands in\n{}", instance, stack);
                });
}

/// One line for the whole group, from whoever notices first.
void Channel::warn_once(const std::vector<int>& late, std::uint64_t arrival,
                        Clock::time_point begin) {
  auto& last = member_->memory().header().last_warning;
  const auto key = offset_ ^ (arrival << 32);
  auto previous = last.load();
  if (previous == key || !last.compare_exchange_strong(previous, key)) return;
  if (member_->options().warn) member_->options().warn(describe_late(late, begin));
}

}  // namespace lockstep::comm::host
