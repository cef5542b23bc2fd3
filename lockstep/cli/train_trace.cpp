#include "lockstep/cli/train_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/clock_offset.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/monitor/export/trace_writer.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "spans-";
constexpr std::uint64_t kSpansOfThread = 32768;  // 768 KiB
constexpr std::uint32_t kMostThreads = 1024;

std::string record_name(const topology::Identity& identity) {
  return fmt::format("{}{}-{}", kPrefix, identity.restart_count, identity.instance);
}

/// Everybody's bytes, by rank, on rank 0.
std::vector<std::vector<std::byte>> gather(const World& world, std::vector<std::byte> mine) {
  const auto ranks = static_cast<std::size_t>(world.num_instances());
  const auto own_size = std::ssize(mine);
  std::vector<std::int64_t> sizes(ranks);
  world.all_gather({&own_size, 1, DataType::I64, "trace"},
                   {sizes.data(), std::ssize(sizes), DataType::I64, "trace"});
  const auto longest = std::max<std::int64_t>(1, std::ranges::max(sizes));
  mine.resize(static_cast<std::size_t>(longest));
  const bool is_root = world.instance() == 0;
  std::vector<std::byte> all(is_root ? ranks * mine.size() : 0);
  world.communicator().gather({mine.data(), longest, DataType::U8, "trace"},
                              {all.data(), std::ssize(all), DataType::U8, "trace"}, 0);
  std::vector<std::vector<std::byte>> parts;
  for (std::size_t rank = 0; is_root && rank < ranks; ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank) * longest;
    parts.emplace_back(begin, begin + sizes[rank]);
  }
  return parts;
}

/// The offset of each host except the host of instance 0. If the launcher does not name the hosts,
/// wall clocks decide.
monitor::TraceClocks measure_clocks(const World& world, const topology::Identity& identity) {
  monitor::TraceClocks clocks;
  int first = 0;
  for (const auto& host : identity.hosts) {
    if (first > 0) {
      clocks.offsets[host.name] =
          comm::clock_offset(world.communicator(), first, events::monotonic_nanoseconds);
    }
    first += host.num_instances;
  }
  return clocks;
}

/// One instance's spans after another, each behind its size.
std::vector<std::byte> packed(const std::vector<monitor::InstanceSpans>& instances) {
  std::vector<std::byte> bytes;
  for (const auto& instance : instances) {
    const auto one = monitor::pack_spans(instance);
    const auto size = one.size();
    const auto* const begin = reinterpret_cast<const std::byte*>(&size);
    bytes.insert(bytes.end(), begin, begin + sizeof size);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

void unpack(std::span<const std::byte> bytes, std::vector<monitor::InstanceSpans>& to) {
  while (!bytes.empty()) {
    std::size_t size = 0;
    std::copy_n(bytes.begin(), sizeof size, reinterpret_cast<std::byte*>(&size));
    // A copy, since what is read has to be aligned.
    const std::vector<std::byte> one(
        bytes.begin() + sizeof size,
        bytes.begin() + sizeof size + static_cast<std::ptrdiff_t>(size));
    to.push_back(monitor::read_spans(one, "trace of another host"));
    bytes = bytes.subspan(sizeof size + size);
  }
}

/// Whoever was killed before it had begun has left nothing to read.
void add_record(const std::string& path, std::vector<monitor::InstanceSpans>& to) {
  try {
    to.push_back(monitor::read_span_file(path));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Data) throw;
  }
}

}  // namespace

TrainTrace::TrainTrace(std::string file, std::string folder, const topology::Identity& identity)
    : file_(std::move(file)),
      folder_(std::move(folder)),
      own_(record_name(identity)),
      identity_(identity),
      is_shared_(!identity.run_dir.empty()),
      recorder_((fs::path(folder_) / own_).string(), {.instance = identity.instance,
                                                      .attempt = identity.restart_count,
                                                      .host = launch::name_of_this_host(identity),
                                                      .threads = kMostThreads,
                                                      .spans = kSpansOfThread}) {}

/// Where the folder is that of all instances of a host, one of these speaks for all.
std::vector<monitor::InstanceSpans> TrainTrace::local_spans(bool is_leader) const {
  std::vector<monitor::InstanceSpans> spans;
  if (is_shared_ && !is_leader) return spans;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto name = entry.path().filename().string();
    const bool is_wanted = is_shared_ ? name.starts_with(kPrefix) : name == own_;
    if (is_wanted) add_record(entry.path().string(), spans);
  }
  std::ranges::sort(spans, {}, [](const monitor::InstanceSpans& one) {
    return std::pair(one.instance, one.attempt);
  });
  return spans;
}

void TrainTrace::write(const World& world) const {
  auto& communicator = world.communicator();
  communicator.barrier("trace");  // nobody records any more
  auto spans = local_spans(communicator.is_leader());
  const bool is_all_here =
      world.num_instances() == 1 || (is_shared_ && communicator.num_hosts() == 1);
  if (!is_all_here) {
    const auto parts = gather(world, packed(spans));
    spans.clear();
    for (const auto& part : parts) unpack(part, spans);
  }
  const auto clocks = measure_clocks(world, identity_);
  if (identity_.instance == 0) monitor::write_trace(file_, spans, clocks);
}

void TrainTrace::write_what_is_here() const {
  if (identity_.instance == 0) monitor::write_trace(file_, local_spans(true));
}

}  // namespace lockstep::cli
