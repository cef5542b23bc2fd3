#include "lockstep/monitor/export/span_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"

namespace lockstep::monitor {
namespace {

constexpr std::uint64_t kMostSpans = std::uint64_t{1} << 24;
constexpr std::uint32_t kMostThreads = 4096;

void check(const RecorderOptions& options) {
  if (options.threads < 1 || options.threads > kMostThreads) {
    throw Error(ErrorKind::Options, fmt::format("trace: expected 1 to {} threads, found {}",
                                                kMostThreads, options.threads));
  }
  if (options.spans < 2 || options.spans > kMostSpans) {
    throw Error(ErrorKind::Options,
                fmt::format("trace: expected room for 2 to {} spans of a thread, found {}",
                            kMostSpans, options.spans),
                "16384 spans are 400 KiB");
  }
}

UniqueFd make_file(const std::string& path, std::size_t size) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    throw io_error("trace: " + path);
  }
  return file;
}

/// A disk that is full is an error here, and not a signal when the memory is first touched.
void take_room(const UniqueFd& file, std::size_t offset, std::size_t bytes) {
  const int error =
      ::posix_fallocate(file.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (error == 0) return;
  errno = error;
  throw io_error("trace: room for what is recorded");
}

void* map_file(const UniqueFd& file, std::size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw io_error("trace: map what is recorded");
  return memory;
}

/// Two clocks cannot be read at the same instant: of a few tries, the one that took least time.
std::int64_t wall_minus_monotonic() {
  std::int64_t best_gap = INT64_MAX;
  std::int64_t difference = 0;
  for (int i = 0; i < 8; ++i) {
    const auto before = events::monotonic_nanoseconds();
    std::timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const auto gap = events::monotonic_nanoseconds() - before;
    if (gap >= best_gap) continue;
    best_gap = gap;
    difference = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - before - gap / 2;
  }
  return difference;
}

/// What tells two machines apart whose clocks have nothing in common.
std::string boot_of_this_machine() {
  try {
    const auto text = read_file("/proc/sys/kernel/random/boot_id");
    return std::string(trim(text));
  } catch (const Error&) {
    return {};  // then the name of the host has to do
  }
}

}  // namespace

class SpanRecorder::Track final : public events::SpanSink {
 public:
  Track(TrackHeader& header, std::span<Slot> ring) : header_(header), ring_(ring) {}

  /// A reader must not take a new span for an old one: it looks at `written` last, and what is
  /// stored here with `release` cannot be seen before what was stored into `written` before it.
  void on(const events::Span& span) noexcept override {
    auto& slot = ring_[next_];
    slot.begin.store(span.begin, std::memory_order_release);
    slot.end.store(span.end, std::memory_order_release);
    slot.step_and_kind.store(span.step * 256 + static_cast<std::int64_t>(span.kind),
                             std::memory_order_release);
    header_.written.store(++written_, std::memory_order_release);
    if (++next_ == ring_.size()) next_ = 0;
  }

 private:
  TrackHeader& header_;
  std::span<Slot> ring_;
  std::size_t next_ = 0;
  std::uint64_t written_ = 0;
};

SpanRecorder::SpanRecorder(const std::string& path, const RecorderOptions& options) {
  check(options);
  size_ = span_file_size(options.threads, options.spans);
  file_ = make_file(path, size_);
  take_room(file_, 0, span_file_size(options.threads, 0));
  header_ = new (map_file(file_, size_)) FileHeader;
  header_->instance = options.instance;
  header_->attempt = options.attempt;
  header_->process = ::getpid();
  header_->most_tracks = options.threads;
  header_->spans_per_track = options.spans;
  header_->wall_minus_monotonic = wall_minus_monotonic();
  copy_name(header_->host, options.host);
  copy_name(header_->boot, boot_of_this_machine());
  header_->magic = kSpanFileMagic;
}

SpanRecorder::~SpanRecorder() {
  ::munmap(header_, size_);
}

events::SpanSink& SpanRecorder::track(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto index = tracks_.size();
  if (index == header_->most_tracks) {
    throw Error(ErrorKind::Options,
                fmt::format("trace: expected at most {} threads, found another one: {}",
                            header_->most_tracks, name),
                "fewer --num-workers");
  }
  auto* headers = reinterpret_cast<TrackHeader*>(header_ + 1);
  auto* slots = reinterpret_cast<Slot*>(headers + header_->most_tracks);
  auto* header = new (headers + index) TrackHeader;
  copy_name(header->name, name);
  const auto ring_bytes = header_->spans_per_track * sizeof(Slot);
  take_room(file_, span_file_size(header_->most_tracks, 0) + index * ring_bytes, ring_bytes);
  const std::span ring(slots + index * header_->spans_per_track, header_->spans_per_track);
  // Pages that are there already cost no fault in the middle of a step.
  std::uninitialized_default_construct(ring.begin(), ring.end());
  tracks_.push_back(std::make_unique<Track>(*header, ring));
  header_->tracks.store(static_cast<std::uint32_t>(index + 1), std::memory_order_release);
  return *tracks_.back();
}

}  // namespace lockstep::monitor
