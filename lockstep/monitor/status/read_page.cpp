#include "lockstep/monitor/status/read_page.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "lockstep/base/strings.h"
#include "lockstep/monitor/status/page_layout.h"

namespace lockstep::monitor {
namespace {

/// A writer at full speed needs some hundred nanoseconds for an update, a reader as long for a copy
/// of both places: some attempts fail, hardly ever many in a row.
constexpr int kAttempts = 1000;

std::int64_t size_of(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 ? info.st_size : 0;
}

template <typename Value>
Value read_at(int file, std::size_t offset) {
  Value value{};
  const auto count = ::pread(file, &value, sizeof value, static_cast<off_t>(offset));
  if (count < 0) throw BadPage(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (static_cast<std::size_t>(count) < sizeof value) {
    throw BadPage(fmt::format("cut short: {} of {} bytes", size_of(file), page::kPageSize));
  }
  return value;
}

/// Texts come from a file that anybody may have written, and go to a terminal and into JSON.
template <std::size_t size>
std::string to_text(const std::array<char, size>& place) {
  return printable({place.begin(), std::find(place.begin(), place.end(), '\0')});
}

/// What the page begins with, without its state.
struct Head {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t facts_checksum;
};

/// More than any job has. Whoever shows a page makes something of each.
constexpr std::int32_t kMost = 1 << 16;
constexpr std::int32_t kMostStages = 1 << 10;

void check(const page::Facts& facts) {
  const bool is_sound =
      facts.process > 0 && facts.num_instances > 0 && facts.num_instances <= kMost &&
      facts.instance >= 0 && facts.instance < facts.num_instances && facts.restart_count >= 0 &&
      facts.first_replica >= 0 && facts.local_replicas > 0 && facts.num_replicas > 0 &&
      facts.num_replicas <= kMost && facts.devices_per_replica <= kMostStages &&
      facts.local_replicas <= facts.num_replicas - facts.first_replica &&
      facts.devices_per_replica > 0 && facts.threads_per_device >= 0 && facts.num_devices >= 0 &&
      facts.device_kind >= 0 && facts.device_kind <= static_cast<int>(DeviceKind::Cuda);
  if (!is_sound) throw BadPage("damaged: what it says of its instance cannot be");
}

InstanceFacts read_facts(int file) {
  const auto head = read_at<Head>(file, 0);
  if (head.magic != page::kMagic) throw BadPage("damaged: not a status page");
  if (head.version != page::kLayoutVersion) {
    throw BadPage(fmt::format("of another build of lockstep: its layout is {}, ours {}",
                              head.version, page::kLayoutVersion));
  }
  const auto stored = read_at<page::Facts>(file, offsetof(page::Page, facts));
  if (page::checksum_of(stored) != head.facts_checksum) {
    throw BadPage("damaged: the checksum of its facts is wrong");
  }
  check(stored);
  const auto* ids = stored.device_ids.data();
  return {
      .job = to_text(stored.job),
      .host = to_text(stored.host),
      .user = to_text(stored.user),
      .command = to_text(stored.command),
      .process = stored.process,
      .start_ticks = stored.start_ticks,
      .start_time = stored.start_time,
      .instance = stored.instance,
      .num_instances = stored.num_instances,
      .restart_count = stored.restart_count,
      .replicas = {stored.first_replica, stored.local_replicas},
      .num_replicas = stored.num_replicas,
      .devices_per_replica = stored.devices_per_replica,
      .threads_per_device = stored.threads_per_device,
      .device_kind = static_cast<DeviceKind>(stored.device_kind),
      .device_ids = {ids, ids + std::min<std::size_t>(static_cast<std::size_t>(stored.num_devices),
                                                      page::kMaxDevices)}};
}

std::uint64_t read_sequence(int file) {
  return read_at<std::uint64_t>(file, offsetof(page::Page, sequence));
}

/// A place as it is in the file.
struct alignas(64) CopiedPlace {
  page::State state;
  std::uint64_t checksum;

  /// Parts of two updates do not have the checksum of either.
  bool is_whole() const noexcept { return page::checksum_of(state) == checksum; }
};
static_assert(offsetof(CopiedPlace, checksum) == offsetof(page::Place, checksum));
static_assert(sizeof(CopiedPlace) == sizeof(page::Place));

/// The state of one whole update, which is the last one or later.
page::State read_stored_state(int file) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto before = read_sequence(file);
    std::atomic_thread_fence(std::memory_order_acquire);
    const auto places = read_at<std::array<CopiedPlace, 2>>(file, offsetof(page::Page, places));
    const CopiedPlace* newest = nullptr;
    for (const auto& place : places) {
      const auto sequence = place.state.sequence;
      const bool is_newer = newest == nullptr || sequence > newest->state.sequence;
      if (sequence >= before && is_newer && place.is_whole()) newest = &place;
    }
    if (newest != nullptr) return newest->state;
    std::atomic_thread_fence(std::memory_order_acquire);
    // Without an update since then, the place of the last one was not touched.
    if (read_sequence(file) == before) {
      throw BadPage("damaged: the checksum of its state is wrong");
    }
  }
  throw BadPage("written faster than it can be read");
}

InstanceState read_state(int file) {
  if (read_sequence(file) == 0) return {};
  const auto stored = read_stored_state(file);
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 31;  // their product has to fit, too
  const auto is_count = [](std::int64_t value) { return value >= 0 && value <= kMostSteps; };
  if (stored.phase < 0 || stored.phase > static_cast<std::int64_t>(Phase::Finishing) ||
      !is_count(stored.epoch) || !is_count(stored.step) || !is_count(stored.steps_of_epoch)) {
    throw BadPage("damaged: what it says of its work cannot be");
  }
  return {.phase = static_cast<Phase>(stored.phase),
          .epoch = stored.epoch,
          .step = stored.step,
          .steps_of_epoch = stored.steps_of_epoch,
          .samples = stored.samples,
          .samples_per_second = stored.samples_per_second,
          .loss = stored.loss,
          .accuracy = stored.accuracy,
          .seconds = {.data = stored.data_seconds,
                      .compute = stored.compute_seconds,
                      .reduce = stored.reduce_seconds,
                      .idle = stored.idle_seconds},
          .device_memory_bytes = stored.device_memory_bytes,
          .collectives = stored.collectives,
          .collective = to_text(stored.collective),
          .is_in_collective = stored.is_in_collective != 0,
          .updated_ns = stored.updated_ns};
}

}  // namespace

PageContent read_page(int file) {
  return {.facts = read_facts(file), .state = read_state(file)};
}

}  // namespace lockstep::monitor
