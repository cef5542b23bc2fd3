#include "lockstep/comm/slurm/slurm_meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <list>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/base/strings.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/host/host_transport.h"
#include "lockstep/comm/slurm/credential.h"
#include "lockstep/comm/tcp/addresses.h"
#include "lockstep/comm/tcp/socket.h"

namespace lockstep::comm::slurm {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using topology::JobHost;

/// The tasks of a node use a channel of their own, beside all that a job makes later.
constexpr std::uint64_t kMeetingChannel = 1;

constexpr int kFirstPort = 10000;
constexpr int kNumPorts = 20000;  // below those that the kernel gives to anybody
constexpr int kTries = 8;
/// A credential is some hundred letters; a table of a thousand nodes some ten thousand.
constexpr std::size_t kLongestMessage = std::size_t{256} << 10;
constexpr auto kTimeToSpeak = 5s;
constexpr std::size_t kMostGuests = 256;

int port_of_try(const StepPlace& place, int index) {
  const auto first = Fnv().add(place.session).value() % kNumPorts;
  return kFirstPort + static_cast<int>((first + static_cast<std::uint64_t>(index)) % kNumPorts);
}

std::vector<std::string> addresses_of(const JobHost& host) {
  auto found = tcp::addresses_of(host.name);
  if (!found.empty()) return found;
  throw Error(ErrorKind::Unavailable,
              fmt::format("meeting: the name of node '{}' is not known here", host.name),
              "let every node resolve the names of the others");
}

/// What the first leader says to everybody, so that others do not wait at a stranger's port. It
/// tells nothing, and proves nothing.
std::string banner_of(const StepPlace& place) {
  return fmt::format("lockstep {:016x}", Fnv().add(place.session).value());
}

/// Messages each way, each on a line of its own.
class Link {
 public:
  explicit Link(UniqueFd socket)
      : socket_(std::move(socket)), deadline_(Clock::now() + kTimeToSpeak) {}

  int fd() const noexcept { return socket_.get(); }
  Clock::time_point deadline() const noexcept { return deadline_; }

  bool send(const std::string& message) const {
    const auto line = message + '\n';
    for (std::size_t sent = 0; sent < line.size();) {
      pollfd writable{.fd = fd(), .events = POLLOUT, .revents = 0};
      if (::poll(&writable, 1, 1000) <= 0) return false;
      const auto count = ::send(fd(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    return true;
  }

  enum class State { Waiting, Whole, Broken };
  /// Takes what has come, and does not wait.
  State receive() {
    std::array<char, 4096> bytes{};
    const auto count = ::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return State::Waiting;
    if (count <= 0) return State::Broken;
    text_.append(bytes.data(), static_cast<std::size_t>(count));
    if (has_message()) return State::Whole;
    return text_.size() < kLongestMessage ? State::Waiting : State::Broken;
  }
  bool has_message() const noexcept { return text_.find('\n') != std::string::npos; }
  std::string take_message() {
    auto message = text_.substr(0, text_.find('\n'));
    text_.erase(0, message.size() + 1);
    return message;
  }

 private:
  UniqueFd socket_;
  Clock::time_point deadline_;
  std::string text_;
};

/// Waits until something can be read, for a moment.
bool wait_for(const std::vector<pollfd>& fds) {
  auto waiting = fds;
  return ::poll(waiting.data(), waiting.size(), 100) > 0;
}

/// A wait for other nodes, of which those of this one are told.
class Patience {
 public:
  explicit Patience(host::Member& member) : member_(member) {}

  void check(const std::string& who) const {
    member_.throw_if_failed();
    member_.heartbeat("wait for other nodes");
    const auto limit = member_.options().stall_timeout;
    if (limit.count() == 0 || Clock::now() - begin_ < limit) return;
    throw Error(ErrorKind::Timeout, fmt::format("meeting: {} after {:.0f} s", who, limit.count()),
                "let all tasks of the step run, on nodes that reach each other");
  }

 private:
  host::Member& member_;
  Clock::time_point begin_ = Clock::now();
};

/// What a leader says of its host: "SESSION HOST ADDRESS PORT".
std::string introduction(const StepPlace& place, const JobHost& own) {
  return fmt::format("{} {} {} {}", place.session, place.host, own.address, own.port);
}

/// Fills in a host from its leader's words; returns whether they are of this step.
bool read_introduction(const std::string& text, const StepPlace& place,
                       std::vector<JobHost>& hosts) {
  const auto words = split(text, ' ');
  if (words.size() != 4 || words[0] != place.session) return false;
  const auto host = parse_integer(words[1]);
  const auto port = parse_integer(words[3]);
  if (!host || *host < 1 || *host >= std::ssize(hosts) || !port) return false;
  auto& known = hosts[static_cast<std::size_t>(*host)];
  known.address = words[2];
  known.port = static_cast<int>(*port);
  return true;
}

/// "SESSION SECRET ADDRESS PORT ADDRESS PORT …"
std::string answer_of(const StepPlace& place, const Met& met) {
  auto text = fmt::format("{} {}", place.session, met.secret.to_text());
  for (const auto& host : met.hosts) text += fmt::format(" {} {}", host.address, host.port);
  return text;
}

std::optional<Met> read_answer(const std::string& text, const StepPlace& place) {
  const auto words = split(text, ' ');
  if (words.size() != 2 + 2 * place.hosts.size() || words[0] != place.session) return std::nullopt;
  const auto secret = tcp::Secret::parse(words[1]);
  if (!secret) return std::nullopt;
  Met met{*secret, place.hosts, {}};
  for (std::size_t i = 0; i < met.hosts.size(); ++i) {
    met.hosts[i].address = words[2 + 2 * i];
    met.hosts[i].port = static_cast<int>(parse_integer(words[3 + 2 * i]).value_or(0));
  }
  return met;
}

/// The leader of the first node.
class Host {
 public:
  Host(const StepPlace& place, host::Member& member)
      : place_(place),
        patience_(member),
        met_{tcp::Secret::random(), place.hosts, {}},
        address_(tcp::address_towards(addresses_of(place.hosts.back()).front())),
        door_(open_door()) {
    met_.listener = tcp::listen_at({address_, 0});
    met_.hosts.front().address = address_;
    met_.hosts.front().port = tcp::port_of(met_.listener.get());
  }

  Met wait_for_all() {
    for (auto missing = who_is_missing(); !missing.empty(); missing = who_is_missing()) {
      patience_.check(fmt::format("nodes {} have not come", fmt::join(missing, ", ")));
      if (wait_for(descriptors())) listen_to_guests();
      drop_late();
    }
    for (const auto& guest : introduced_) guest.send(seal(answer_of(place_, met_)));
    return std::move(met_);
  }

 private:
  UniqueFd open_door() const {
    for (int index = 0;; ++index) {
      try {
        return tcp::listen_at({address_, port_of_try(place_, index)});
      } catch (const Error&) {
        if (index + 1 == kTries) throw;
      }
    }
  }

  std::vector<std::string> who_is_missing() const {
    std::vector<std::string> missing;
    for (const auto& host : met_.hosts) {
      if (host.port == 0) missing.push_back(host.name);
    }
    return missing;
  }

  std::vector<pollfd> descriptors() const {
    std::vector<pollfd> fds{{door_.get(), POLLIN, 0}};
    for (const auto& guest : guests_) fds.push_back({guest.fd(), POLLIN, 0});
    return fds;
  }

  /// Whoever does not speak as one of the step is sent away without a word.
  void listen_to_guests() {
    while (UniqueFd socket{::accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC)}) {
      guests_.emplace_back(std::move(socket));
      guests_.back().send(banner_of(place_));
      if (guests_.size() > kMostGuests) guests_.pop_front();
    }
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      const auto state = guest->receive();
      const auto next = std::next(guest);
      if (state == Link::State::Whole) {
        const auto words = open(guest->take_message());
        if (words && read_introduction(*words, place_, met_.hosts)) {
          introduced_.splice(introduced_.end(), guests_, guest);
        } else {
          guests_.erase(guest);
        }
      } else if (state == Link::State::Broken) {
        guests_.erase(guest);
      }
      guest = next;
    }
  }

  void drop_late() {
    guests_.remove_if([](const Link& guest) { return Clock::now() > guest.deadline(); });
  }

  const StepPlace& place_;
  Patience patience_;
  Met met_;
  std::string address_;
  UniqueFd door_;
  std::list<Link> guests_;
  std::list<Link> introduced_;
};

/// The leader of another node.
class Guest {
 public:
  Guest(const StepPlace& place, host::Member& member)
      : place_(place), patience_(member), addresses_(addresses_of(place.hosts.front())) {}

  Met visit() {
    for (int index = 0;; index = (index + 1) % kTries) {
      for (const auto& address : addresses_) {
        if (auto met = try_at({address, port_of_try(place_, index)})) return std::move(*met);
        check();
      }
      std::this_thread::sleep_for(20ms);
    }
  }

 private:
  void check() const {
    patience_.check(fmt::format("node {} ({}) has not answered", place_.hosts.front().name,
                                fmt::join(addresses_, ", ")));
  }

  /// The next message, if it comes in time.
  std::optional<std::string> wait_for_message(Link& link, Clock::time_point end) const {
    while (!link.has_message()) {
      check();
      if (Clock::now() > end) return std::nullopt;
      const bool has_come = wait_for({{link.fd(), POLLIN, 0}});
      if (has_come && link.receive() == Link::State::Broken) return std::nullopt;
    }
    return link.take_message();
  }

  std::optional<Met> try_at(const tcp::SocketAddress& address) const {
    UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 2, .tv_usec = 0};  // connecting waits no longer, too
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (!socket || ::connect(socket.get(), address.get(), address.size()) != 0) return std::nullopt;
    const auto own_address = tcp::local_address(socket.get());
    Link link(std::move(socket));
    if (wait_for_message(link, Clock::now() + 2s) != banner_of(place_)) return std::nullopt;

    auto own = place_.hosts[static_cast<std::size_t>(place_.host)];
    own.address = own_address;
    auto listener = tcp::listen_at({own.address, 0});
    own.port = tcp::port_of(listener.get());
    if (!link.send(seal(introduction(place_, own)))) return std::nullopt;
    const auto answer = wait_for_message(link, Clock::time_point::max());
    const auto words = answer ? open(*answer) : std::nullopt;
    auto met = words ? read_answer(*words, place_) : std::nullopt;
    if (met) met->listener = std::move(listener);
    return met;
  }

  const StepPlace& place_;
  Patience patience_;
  std::vector<std::string> addresses_;
};

Met meet_leaders(const StepPlace& place, host::Member& member) {
  return place.host == 0 ? Host(place, member).wait_for_all() : Guest(place, member).visit();
}

}  // namespace

Met meet(const StepPlace& place, const std::shared_ptr<host::Member>& member) {
  const auto here = member->memory().introduced();
  Communicator node(std::make_unique<host::HostTransport>(member, here, here, kMeetingChannel));
  std::optional<Met> met;
  std::string text;
  if (node.rank() == 0) {
    met = meet_leaders(place, *member);
    text = answer_of(place, *met);
  }
  auto size = static_cast<std::int64_t>(text.size());
  node.broadcast({&size, 1, DataType::I64, "meeting"}, 0);
  text.resize(static_cast<std::size_t>(size));
  node.broadcast({text.data(), size, DataType::U8, "meeting"}, 0);
  if (!met) met = read_answer(text, place);
  return *std::move(met);
}

}  // namespace lockstep::comm::slurm
