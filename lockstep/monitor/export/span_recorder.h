#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/events/trace_events.h"
#include "lockstep/monitor/export/span_file.h"

namespace lockstep::monitor {

struct RecorderOptions {
  int instance = 0;
  int attempt = 0;              ///< how often the job had been started before
  std::string host{};           ///< as the launcher calls it
  std::uint32_t threads = 64;   ///< at most
  std::uint64_t spans = 16384;  ///< of each thread; older ones are replaced by newer ones
};

/// Records what the threads of an instance do, in memory that is a file: nothing has to be done
/// when the instance ends, however it does.
///
/// The file takes 24 bytes a span; pages that no thread uses are not there. `track` may be called
/// by any thread; each sink that it gives belongs to one thread, which takes no lock and calls
/// nothing to tell it of a span. Sinks live as long as the recorder.
///
/// Errors: `Io`; `Options` for numbers that make no sense, and for more threads than were expected.
class SpanRecorder final : public events::SpanTracks {
 public:
  SpanRecorder(const std::string& path, const RecorderOptions& options);
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;
  ~SpanRecorder() override;

  /// A sink for a thread; the name, as "device 0", is shown beside what it did.
  events::SpanSink& track(std::string_view name) override;

 private:
  class Track;

  UniqueFd file_;
  FileHeader* header_ = nullptr;
  std::size_t size_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Track>> tracks_;
};

}  // namespace lockstep::monitor
