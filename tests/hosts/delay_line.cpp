// delay_line IF1 IF2 MICROSECONDS: carries frames between two interfaces, both ways, each after a
// delay.
//
// What tc's netem does where the kernel has it. Frames keep their order. They are taken with the
// header that says what the sender has left to the hardware (checksums, segments of a large frame),
// and given on with it, so that a large frame passes whole. Says "ready", and runs until it is
// killed.

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// A header of 10 bytes, and the largest frame that segmentation makes.
constexpr std::size_t kLargestFrame = 10 + 14 + 65536 + 64;
// More than 5 ms at 10 Gbit/s. Beyond it frames are dropped, as a switch would.
constexpr std::size_t kMostQueuedBytes = 64 << 20;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "delay_line: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void set(int socket, int level, int option, int value) {
  if (setsockopt(socket, level, option, &value, sizeof value) != 0) fail("setsockopt");
}

int open_interface(const char* name) {
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
  if (socket < 0) fail("socket");
  set(socket, SOL_PACKET, PACKET_VNET_HDR, 1);
  // Else it would carry back what it has just given out.
  set(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
  set(socket, SOL_SOCKET, SO_RCVBUFFORCE, kMostQueuedBytes);
  set(socket, SOL_SOCKET, SO_SNDBUFFORCE, kMostQueuedBytes);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name));
  if (address.sll_ifindex == 0) fail(name);
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("bind");
  return socket;
}

struct Frame {
  Clock::time_point due;
  std::vector<char> bytes;
};

/// One direction.
class Line {
 public:
  Line(int from, int to, Clock::duration delay) : from_(from), to_(to), delay_(delay) {}

  void take() {
    static std::vector<char> buffer(kLargestFrame);
    while (true) {
      const ssize_t size = recv(from_, buffer.data(), buffer.size(), 0);
      if (size < 0) return;
      if (queued_ + static_cast<std::size_t>(size) > kMostQueuedBytes) continue;
      queued_ += static_cast<std::size_t>(size);
      frames_.push_back({Clock::now() + delay_, {buffer.data(), buffer.data() + size}});
    }
  }

  void give() {
    while (!frames_.empty() && frames_.front().due <= Clock::now()) {
      const auto& bytes = frames_.front().bytes;
      // An interface that is down takes nothing, and a full one drops: both are what a cable does.
      if (send(to_, bytes.data(), bytes.size(), 0) < 0 && errno == EAGAIN) return;
      queued_ -= bytes.size();
      frames_.pop_front();
    }
  }

  /// How long nothing is due.
  Clock::duration rest() const {
    return frames_.empty() ? std::chrono::hours(1) : frames_.front().due - Clock::now();
  }

 private:
  int from_;
  int to_;
  Clock::duration delay_;
  std::deque<Frame> frames_;
  std::size_t queued_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: delay_line IF1 IF2 MICROSECONDS\n");
    return 2;
  }
  const int sockets[] = {open_interface(arguments[1]), open_interface(arguments[2])};
  const std::chrono::microseconds delay(std::atol(arguments[3]));
  Line lines[] = {{sockets[0], sockets[1], delay}, {sockets[1], sockets[0], delay}};
  std::puts("ready");
  std::fflush(stdout);
  while (true) {
    const auto rest = std::max(Clock::duration::zero(), std::min(lines[0].rest(), lines[1].rest()));
    const auto nanoseconds = std::chrono::nanoseconds(rest).count();
    const timespec timeout{.tv_sec = nanoseconds / 1'000'000'000,
                           .tv_nsec = nanoseconds % 1'000'000'000};
    pollfd ready[] = {{sockets[0], POLLIN, 0}, {sockets[1], POLLIN, 0}};
    if (ppoll(ready, 2, &timeout, nullptr) < 0 && errno != EINTR) fail("ppoll");
    for (auto& line : lines) {
      line.take();
      line.give();
    }
  }
}
