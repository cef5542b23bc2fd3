#pragma once

#include <microhttpd.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "lockstep/monitor/web/connection_table.h"
#include "lockstep/monitor/web/dashboard_state.h"

namespace lockstep::monitor {

/// The open streams of a server. Each holds no more than the text that its reader is taking, which
/// it shares with the others; a reader that is slow gets the newest text next, not all that came
/// since.
///
/// One thread uses it, the one that runs libmicrohttpd.
class StreamSet {
 public:
  StreamSet(const DashboardState& state, ConnectionTable& connections)
      : state_(state), connections_(connections) {}
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  /// An endless response for a connection, which belongs to the caller.
  MHD_Response* open(MHD_Connection* connection);

  /// Wakes those for whom there is something new, or who have not heard anything for a while: else
  /// nobody would notice that a reader is gone.
  void wake(ConnectionTable::Clock::time_point now);
  /// Ends all streams; libmicrohttpd has to run once more.
  void end();

  std::size_t size() const noexcept { return streams_.size(); }

 private:
  struct Stream {
    StreamSet* set = nullptr;
    MHD_Connection* connection = nullptr;
    std::list<std::unique_ptr<Stream>>::iterator place;
    std::string rest_of_head;  ///< what has to be sent before the text, or instead of one
    std::shared_ptr<const std::string> text;
    std::size_t taken = 0;  ///< of the head, the text and the empty line, together
    std::uint64_t version = 0;
    bool is_resting = false;
    ConnectionTable::Clock::time_point last_sent{};
  };

  static ssize_t read(void* stream, std::uint64_t position, char* buffer, std::size_t most);
  static void forget(void* stream);

  bool begin_next(Stream& stream);
  static std::size_t copy(Stream& stream, char* buffer, std::size_t most);
  void resume(Stream& stream);

  const DashboardState& state_;
  ConnectionTable& connections_;
  std::list<std::unique_ptr<Stream>> streams_;
  bool is_ending_ = false;
};

}  // namespace lockstep::monitor
