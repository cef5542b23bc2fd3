#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/comm/hosts/fabric.h"

namespace lockstep::comm::tcp {

/// Carries notes between the leaders of hosts, beside all data. Any thread may call a member; none
/// of them waits.
class NoteLinks {
 public:
  /// One connection for each host, none for this one.
  explicit NoteLinks(std::vector<UniqueFd> sockets);
  ~NoteLinks();
  NoteLinks(const NoteLinks&) = delete;
  NoteLinks& operator=(const NoteLinks&) = delete;

  void tell(const hosts::Note& note) noexcept;
  std::vector<hosts::Note> take();

 private:
  struct Link {
    UniqueFd socket;
    std::vector<std::byte> received{};
    std::vector<std::byte> unsent{};
    bool has_left = false;
  };
  void flush(Link& link) noexcept;
  void receive(int host, std::vector<hosts::Note>& notes);
  /// Takes whole notes out of what was received; returns whether they make sense.
  static bool parse(Link& link, int host, std::vector<hosts::Note>& notes);

  std::mutex mutex_;
  std::vector<Link> links_;
};

}  // namespace lockstep::comm::tcp
