#include "lockstep/comm/shm/meeting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/base/version.h"

namespace lockstep::comm::shm {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kFirstPause(200);
constexpr std::chrono::microseconds kLongestPause(10000);

struct Hello {
  static constexpr std::uint64_t kMagic = 0x4c4b535450000002;
  std::uint64_t magic;
  std::uint64_t build;
  std::int32_t instance;
  std::int32_t num_instances;
  std::int32_t local_instance;
  std::int32_t num_local_instances;
};

/// Goes with the memory, or says why it does not come.
struct Answer {
  std::array<char, 512> refusal;
};

/// Two that differ in anything could misunderstand each other.
std::uint64_t build_id() {
  return Fnv().add(host::kLayoutVersion).add(version()).add(commit()).value();
}

/// A file in the job's folder if there is one, else a name of the abstract kind, which ends with
/// its owner.
class Address {
 public:
  explicit Address(const MeetingPlace& place) : is_file_(!place.folder.empty()) {
    address_.sun_family = AF_UNIX;
    if (is_file_) {
      // A socket's path may have 107 characters, a folder's more: go through the open folder.
      folder_.reset(::open(place.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!folder_) throw io_error("meeting: open " + place.folder);
      path_ = fmt::format("/proc/self/fd/{}/meeting-{:x}", folder_.get(),
                          Fnv().add(place.session).value());
    } else {
      path_ = '\0' + fmt::format("lockstep-{}-{:x}", ::geteuid(), Fnv().add(place.session).value());
    }
    std::memcpy(address_.sun_path, path_.data(), path_.size());
  }

  ~Address() {
    if (is_bound_ && is_file_) ::unlink(path_.c_str());
  }
  Address(const Address&) = delete;
  Address& operator=(const Address&) = delete;

  bool bind(int socket) {
    is_bound_ = ::bind(socket, get(), size()) == 0;
    return is_bound_;
  }
  bool connect(int socket) const { return ::connect(socket, get(), size()) == 0; }

 private:
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const {
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
  }

  bool is_file_;
  bool is_bound_ = false;
  UniqueFd folder_;
  std::string path_;
  sockaddr_un address_{};
};

UniqueFd make_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) throw io_error("meeting: socket");
  return socket;
}

/// The process at the other end; nothing unless it is of the same user.
std::optional<int> peer_process(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  if (peer.uid != ::geteuid()) return std::nullopt;
  return peer.pid;
}

/// Waits until something can be read; returns whether it can.
bool can_read(int socket, std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    const int result = ::poll(&readable, 1, static_cast<int>(std::max(left, 0ms).count()));
    if (result >= 0 || errno != EINTR) return result > 0;
  }
}

/// Sends an answer and, unless it is a refusal, the file.
void send_answer(int socket, const std::string& refusal, int file) {
  Answer answer{};
  std::memcpy(answer.refusal.data(), refusal.data(),
              std::min(refusal.size(), answer.refusal.size() - 1));
  iovec data{.iov_base = &answer, .iov_len = sizeof(answer)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (refusal.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    auto* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof(file));
  }
  // Whoever has gone meanwhile is missed in the first collective, by name.
  ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

/// The file that comes with an answer; nothing where there is no answer. Throws a refusal.
UniqueFd receive_file(int socket) {
  Answer answer{};
  iovec data{.iov_base = &answer, .iov_len = sizeof(answer)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(answer)) return {};
  answer.refusal.back() = '\0';
  if (answer.refusal.front() != '\0') throw Error(ErrorKind::Options, answer.refusal.data());
  const auto* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) {
    throw Error(ErrorKind::Io, "meeting: the job's memory cannot be opened here",
                "raise 'ulimit -n'");
  }
  int file = -1;
  std::memcpy(&file, CMSG_DATA(header), sizeof(file));
  return UniqueFd(file);
}

/// A wait with the warning and the deadline that all waits have.
class Deadline {
 public:
  explicit Deadline(const WaitOptions& options) : options_(options) {}

  void check(const std::string& who_is_missing) {
    const auto waited = Clock::now() - begin_;
    if (options_.stall_timeout.count() > 0 && waited > options_.stall_timeout) {
      throw Error(
          ErrorKind::Timeout,
          fmt::format("meeting: {} after {:.0f} s", who_is_missing, options_.stall_timeout.count()),
          "start every instance of the job, and let each of them use its communicator");
    }
    if (waited < options_.warn_after || has_warned_) return;
    has_warned_ = true;
    if (options_.warn) {
      options_.warn(
          fmt::format("meeting: {} after {:.0f} s", who_is_missing, options_.warn_after.count()));
    }
  }

 private:
  const WaitOptions& options_;
  Clock::time_point begin_ = Clock::now();
  bool has_warned_ = false;
};

bool is_on_one_host(const MeetingPlace& place) {
  return place.num_local_instances == place.num_instances;
}

/// The first instance of the host: waits for the others and hands the memory out.
class Host {
 public:
  Host(const MeetingPlace& place, const WaitOptions& options)
      : place_(place),
        options_(options),
        address_(place),
        has_come_(static_cast<std::size_t>(place.num_local_instances)),
        self_(std::make_shared<host::Member>(
            host::JobMemory::create({.num_instances = place.num_instances,
                                     .num_local_instances = place.num_local_instances,
                                     .host = place.host}),
            place.instance, options, place.kept)) {
    if (!address_.bind(socket_.get())) {
      if (errno != EADDRINUSE) throw io_error("meeting: bind");
      throw Error(ErrorKind::Options,
                  fmt::format("meeting: another process is instance {} of this job already",
                              place.instance),
                  "give every process its own rank, and every job its own MASTER_PORT");
    }
    if (::listen(socket_.get(), place.num_local_instances) != 0) throw io_error("meeting: listen");
    has_come_[0] = true;
  }

  /// What goes wrong here is also told to those who have come.
  std::shared_ptr<host::Member> wait_for_all() {
    try {
      Deadline deadline(options_);
      for (auto missing = who_is_missing(); !missing.empty(); missing = who_is_missing()) {
        deadline.check(fmt::format("instances {} of {}{} have not come", fmt::join(missing, ","),
                                   place_.num_local_instances,
                                   is_on_one_host(place_) ? "" : " on this host"));
        self_->heartbeat("wait for all to come");
        if (can_read(socket_.get(), 100ms)) welcome();
      }
    } catch (const Error& error) {
      self_->fail(error);
    }
    self_->note_return();
    return self_;
  }

 private:
  std::vector<int> who_is_missing() const {
    std::vector<int> missing;
    for (int i = 0; i < place_.num_local_instances; ++i) {
      if (!has_come_[static_cast<std::size_t>(i)]) missing.push_back(i);
    }
    return missing;
  }

  /// Strangers, and who says nothing within a second, are sent away without a word.
  void welcome() {
    const UniqueFd guest(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello{};
    if (!guest) return;
    const auto process = peer_process(guest.get());
    if (!process || !can_read(guest.get(), 1000ms)) return;
    const auto received = ::recv(guest.get(), &hello, sizeof(hello), 0);
    if (received != sizeof(hello) || hello.magic != Hello::kMagic) return;
    const auto refusal = reason_to_refuse(hello);
    if (refusal.empty()) self_->memory().introduce(hello.instance, *process);
    send_answer(guest.get(), refusal, self_->memory().file());
    if (!refusal.empty()) throw Error(ErrorKind::Options, refusal);
    has_come_[static_cast<std::size_t>(hello.local_instance)] = true;
  }

  std::string reason_to_refuse(const Hello& hello) const {
    if (hello.build != build_id()) {
      return fmt::format("meeting: instance {} is built with another lockstep than instance {}",
                         hello.instance, place_.instance);
    }
    if (hello.num_instances != place_.num_instances) {
      return fmt::format("meeting: instance {} is one of {}, instance {} one of {}",
                         place_.instance, place_.num_instances, hello.instance,
                         hello.num_instances);
    }
    if (hello.num_local_instances != place_.num_local_instances) {
      return fmt::format("meeting: instance {} is one of {} on this host, instance {} one of {}",
                         place_.instance, place_.num_local_instances, hello.instance,
                         hello.num_local_instances);
    }
    if (!is_free(hello)) {
      return fmt::format("meeting: two processes say that they are instance {}", hello.instance);
    }
    return {};
  }

  bool is_free(const Hello& hello) const {
    return hello.local_instance >= 0 && hello.local_instance < place_.num_local_instances &&
           !has_come_[static_cast<std::size_t>(hello.local_instance)] && hello.instance >= 0 &&
           hello.instance < place_.num_instances &&
           !std::ranges::binary_search(self_->memory().introduced(), hello.instance);
  }

  const MeetingPlace& place_;
  const WaitOptions& options_;
  Address address_;
  std::vector<bool> has_come_;
  std::shared_ptr<host::Member> self_;
  UniqueFd socket_ = make_socket();
};

/// A connection to the first instance, as soon as it listens.
UniqueFd connect_to_host(const Address& address, const std::function<void()>& check_deadline) {
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    auto socket = make_socket();
    // Where too many wait to be accepted, connecting would wait without end.
    const timeval limit{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (address.connect(socket.get())) return socket;
    check_deadline();
    std::this_thread::sleep_for(pause);
  }
}

/// Whoever has not come when it is too late, the first instance says.
void wait_for_introductions(host::Member& member, int count) {
  while (std::ssize(member.memory().introduced()) < count) {
    member.throw_if_failed();
    if (member.is_gone(member.memory().introduced().front())) {
      member.fail(Error(ErrorKind::PeerLost, "meeting: the first instance of this host is gone"));
    }
    std::this_thread::sleep_for(1ms);
  }
}

std::shared_ptr<host::Member> visit(const MeetingPlace& place, const WaitOptions& options) {
  const Address address(place);
  Deadline deadline(options);
  const auto check_deadline = [&] {
    deadline.check(fmt::format("instance 0 of {}{} has not opened it", place.num_local_instances,
                               is_on_one_host(place) ? "" : " on this host"));
  };
  while (true) {
    const auto socket = connect_to_host(address, check_deadline);
    if (!peer_process(socket.get())) {
      throw Error(ErrorKind::Unavailable, "meeting: a process of another user is at its place",
                  "give the job another MASTER_PORT, or use 'lockstep run'");
    }
    const Hello hello{Hello::kMagic,       build_id(),           place.instance,
                      place.num_instances, place.local_instance, place.num_local_instances};
    ::send(socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL);
    while (!can_read(socket.get(), 100ms)) check_deadline();
    // Without an answer the first instance is gone, or found us too slow: come again.
    if (auto file = receive_file(socket.get())) {
      return std::make_shared<host::Member>(std::make_shared<host::JobMemory>(std::move(file)),
                                            place.instance, options, place.kept);
    }
    check_deadline();
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace

std::shared_ptr<host::Member> meet(const MeetingPlace& place, const WaitOptions& options) {
  if (place.local_instance == 0) return Host(place, options).wait_for_all();
  auto member = visit(place, options);
  if (!is_on_one_host(place)) wait_for_introductions(*member, place.num_local_instances);
  return member;
}

}  // namespace lockstep::comm::shm
