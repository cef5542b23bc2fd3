#include "lockstep/comm/host/channel_directory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <thread>

namespace lockstep::comm::host {
namespace {

constexpr std::chrono::microseconds kFirstPause(20);
constexpr std::chrono::microseconds kLongestPause(5000);

std::bitset<kMaxInstances> as_bits(const std::vector<int>& instances) {
  std::bitset<kMaxInstances> bits;
  for (const int instance : instances) bits.set(static_cast<std::size_t>(instance));
  return bits;
}

std::uint64_t make_channel(Member& member, const ChannelKey& key, std::size_t bytes) {
  auto& header = member.memory().header();
  const auto index = header.num_groups.fetch_add(1);
  if (index >= kMaxGroups) {
    member.fail(Error(ErrorKind::Unavailable,
                      fmt::format("group: at most {} groups of instances can be made", kMaxGroups),
                      "make a group once and keep it"));
  }
  auto& entry = header.groups[index];
  entry.parent = key.parent;
  entry.members = as_bits(key.instances);
  try {
    entry.offset = member.memory().reserve(bytes);
  } catch (const Error& error) {
    member.fail(error);
  }
  entry.is_ready.store(1, std::memory_order_release);
  return entry.offset;
}

std::optional<std::uint64_t> look_up(const JobHeader& header, const ChannelKey& key,
                                     const std::bitset<kMaxInstances>& members) {
  const auto count = std::min<std::uint32_t>(header.num_groups.load(), kMaxGroups);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto& entry = header.groups[i];
    if (entry.is_ready.load(std::memory_order_acquire) == 0) continue;
    if (entry.parent == key.parent && entry.members == members) return entry.offset;
  }
  return std::nullopt;
}

void check_maker(Member& member, const ChannelKey& key, Clock::time_point begin) {
  member.throw_if_failed();
  const int maker = key.maker;
  const auto title = fmt::format("meeting of instances {}", fmt::join(key.instances, ","));
  if (member.is_gone(maker)) {
    member.fail(
        Error(ErrorKind::PeerLost, fmt::format("{}: {} is gone", title, member.name_of(maker))));
  }
  const auto limit = member.options().stall_timeout;
  const auto waited = Clock::now() - std::max({begin, member.last_heartbeat(maker),
                                               member.last_wait_for_hosts(maker)});
  if (limit.count() > 0 && waited > limit) {
    member.fail(Error(ErrorKind::Timeout,
                      fmt::format("{}: {} has not called it after {:.0f} s", title,
                                  member.name_of(maker), limit.count()),
                      "every member of a group must make it"));
  }
}

}  // namespace

std::uint64_t find_channel(Member& member, const ChannelKey& key, std::size_t bytes) {
  if (key.maker == member.instance()) return make_channel(member, key, bytes);
  const auto members = as_bits(key.instances);
  const auto begin = Clock::now();
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    if (const auto offset = look_up(member.memory().header(), key, members)) return *offset;
    check_maker(member, key, begin);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace lockstep::comm::host
