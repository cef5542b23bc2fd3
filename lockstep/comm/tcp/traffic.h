#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/comm/hosts/fabric.h"

namespace lockstep::comm::tcp {

/// What goes over one connection in one direction, piece by piece.
class Stream {
 public:
  void add(const void* data, std::size_t bytes) {
    if (bytes > 0) pieces_.push_back({const_cast<void*>(data), bytes});
  }
  bool is_done() const noexcept { return next_ == pieces_.size(); }
  /// The next pieces, as many as fit into one call.
  std::span<iovec> next() noexcept;
  void advance(std::size_t bytes) noexcept;

 private:
  std::vector<iovec> pieces_;
  std::size_t next_ = 0;
};

/// One exchange between this host and others, over connections that do not wait.
class Traffic {
 public:
  /// One connection for each host, none for this one.
  explicit Traffic(std::span<const UniqueFd> sockets);

  void add(const hosts::Fabric::Send& send);
  void add(const hosts::Fabric::Receive& receive);

  /// Returns when everything is sent and received; or, where a host has closed its connection
  /// before, some time later, during which `look_around` may find out why.
  void run(const hosts::Fabric::LookAround& look_around);
  /// The host that has closed its connection; -1: none has.
  int lost() const noexcept { return lost_; }

 private:
  struct Line {
    int socket = -1;
    Stream out{};
    Stream in{};
    bool has_moved = false;  ///< anything since the last look around
  };
  enum class Progress { Some, None, Lost };

  bool is_done(const Line& line) const noexcept { return line.out.is_done() && line.in.is_done(); }
  Progress send(Line& line);
  Progress receive(Line& line);
  bool move_what_can_be_moved();
  void wait(int limit_ms);
  bool is_finished() const;
  /// Those that are not done, and that nothing came from or went to since the last call.
  std::vector<int> take_idle();

  std::vector<Line> lines_;
  int lost_ = -1;
};

}  // namespace lockstep::comm::tcp
