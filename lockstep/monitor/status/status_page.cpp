#include "lockstep/monitor/status/status_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/monitor/status/page_layout.h"

namespace lockstep::monitor {
namespace {

template <std::size_t size>
void store(std::array<char, size>& place, std::string_view text) noexcept {
  place.fill('\0');
  std::copy_n(text.data(), std::min(text.size(), size), place.data());
}

page::Facts to_page(const InstanceFacts& facts) {
  page::Facts stored{};
  store(stored.job, facts.job);
  store(stored.host, facts.host);
  store(stored.user, facts.user);
  store(stored.command, facts.command);
  stored.start_ticks = facts.start_ticks;
  stored.start_time = facts.start_time;
  stored.process = facts.process;
  stored.instance = facts.instance;
  stored.num_instances = facts.num_instances;
  stored.restart_count = facts.restart_count;
  stored.first_replica = facts.replicas.first;
  stored.local_replicas = facts.replicas.count;
  stored.num_replicas = facts.num_replicas;
  stored.devices_per_replica = facts.devices_per_replica;
  stored.threads_per_device = facts.threads_per_device;
  stored.device_kind = static_cast<std::int32_t>(facts.device_kind);
  stored.num_devices = static_cast<std::int32_t>(facts.device_ids.size());
  std::copy_n(facts.device_ids.begin(), std::min(facts.device_ids.size(), page::kMaxDevices),
              stored.device_ids.begin());
  return stored;
}

page::State to_page(const InstanceState& state, std::uint64_t sequence) noexcept {
  page::State stored{.sequence = sequence,
                     .phase = static_cast<std::int64_t>(state.phase),
                     .epoch = state.epoch,
                     .step = state.step,
                     .steps_of_epoch = state.steps_of_epoch,
                     .samples = state.samples,
                     .samples_per_second = state.samples_per_second,
                     .loss = state.loss,
                     .accuracy = state.accuracy,
                     .data_seconds = state.seconds.data,
                     .compute_seconds = state.seconds.compute,
                     .reduce_seconds = state.seconds.reduce,
                     .idle_seconds = state.seconds.idle,
                     .device_memory_bytes = state.device_memory_bytes,
                     .updated_ns = state.updated_ns,
                     .collectives = state.collectives,
                     .is_in_collective = state.is_in_collective ? 1 : 0,
                     .collective = {}};
  store(stored.collective, state.collective);
  return stored;
}

/// Written and not only lengthened: a disk that is full is noticed here, and not as a signal when
/// the memory is first touched.
void fill_with_zeros(const UniqueFd& file) {
  const std::vector<char> zeros(page::kPageSize, '\0');
  if (::write(file.get(), zeros.data(), zeros.size()) != static_cast<ssize_t>(zeros.size())) {
    throw io_error("status page: write");
  }
}

page::Page* map(const UniqueFd& file) {
  void* memory =
      ::mmap(nullptr, page::kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw io_error("status page: map");
  return new (memory) page::Page;
}

std::uint64_t inode_of(const UniqueFd& file) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw io_error("status page: fstat");
  return info.st_ino;
}

/// A file under another name, until it is finished; it is gone where that fails.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(std::string path) : path_(std::move(path)) {
    ::unlink(path_.c_str());
    file_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file_) throw io_error("status page: " + path_);
  }
  ~UnfinishedFile() {
    if (!is_finished_) ::unlink(path_.c_str());
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  const UniqueFd& file() const noexcept { return file_; }

  bool rename_to(const std::string& path) noexcept {
    is_finished_ = std::rename(path_.c_str(), path.c_str()) == 0;
    return is_finished_;
  }

 private:
  std::string path_;
  UniqueFd file_;
  bool is_finished_ = false;
};

}  // namespace

std::string page_name(int instance) {
  return fmt::format("status-{}", instance);
}

StatusPage::StatusPage(const std::string& folder, const InstanceFacts& facts)
    : path_(folder + "/" + page_name(facts.instance)), owner_(::getpid()) {
  // Nobody sees a page before its facts are there, nor loses one that is being read.
  UnfinishedFile unfinished(fmt::format("{}.{}", path_, owner_));
  inode_ = inode_of(unfinished.file());
  fill_with_zeros(unfinished.file());
  page_ = map(unfinished.file());
  page_->magic = page::kMagic;
  page_->version = page::kLayoutVersion;
  page_->facts = to_page(facts);
  page_->facts_checksum = page::checksum_of(page_->facts);
  page_->sequence.store(0, std::memory_order_release);
  if (!unfinished.rename_to(path_)) {
    const auto error = io_error("status page: rename to " + path_);
    ::munmap(page_, page::kPageSize);
    throw error;
  }
}

StatusPage::~StatusPage() {
  if (owner_ == ::getpid() && is_still_ours()) ::unlink(path_.c_str());
  ::munmap(page_, page::kPageSize);
}

/// Where an instance of the same number has come since, the page under the name is its.
bool StatusPage::is_still_ours() const noexcept {
  struct stat info {};
  return ::lstat(path_.c_str(), &info) == 0 && info.st_ino == inode_;
}

void StatusPage::write(const InstanceState& state) noexcept {
  const auto sequence = page_->sequence.load(std::memory_order_relaxed) + 1;
  const auto stored = to_page(state, sequence);
  const auto words = std::bit_cast<page::StateWords>(stored);
  auto& place = page_->places[sequence % 2];
  // Whoever sees a word of this update also sees that the place is no longer the current one.
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i) {
    place.words[i].store(words[i], std::memory_order_relaxed);
  }
  place.checksum.store(page::checksum_of(stored), std::memory_order_relaxed);
  page_->sequence.store(sequence, std::memory_order_release);
}

}  // namespace lockstep::monitor
