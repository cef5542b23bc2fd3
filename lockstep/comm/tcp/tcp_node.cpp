#include "lockstep/comm/tcp/tcp_node.h"

#include <poll.h>

#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/base/version.h"
#include "lockstep/comm/tcp/dial.h"

namespace lockstep::comm::tcp {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLossCheckInterval = 100ms;
/// For one attempt to connect: a machine that is gone, or busy, may not answer at all.
constexpr auto kAttempt = 2s;
constexpr auto kPause = 5ms;

/// Who an instance is to another.
struct Hello {
  std::uint64_t session;
  std::uint64_t id;
  Purpose purpose;
  std::int32_t from;
  std::int32_t to;
};
static_assert(sizeof(Hello) <= sizeof(Payload));

/// Two that differ in anything could misunderstand each other.
std::uint64_t session_hash(const TcpNode::Job& job) {
  return Fnv()
      .add(version())
      .add(commit())
      .add(job.session)
      .add(static_cast<std::uint64_t>(job.num_instances))
      .value();
}

}  // namespace

TcpNode::TcpNode(UniqueFd listener, Job job)
    : job_(std::move(job)),
      port_(port_of(listener.get())),
      listener_(
          std::move(listener), job_.secret,
          [this](const Payload& payload) { return read(payload).has_value(); },
          [this](UniqueFd socket, const Payload& payload) {
            const std::lock_guard lock(mutex_);
            // Whoever comes twice has given up its first connection.
            taken_[*read(payload)] = std::move(socket);
          }),
      ending_(make_pipe()),
      thread_([this] { serve(); }) {}

TcpNode::~TcpNode() {
  ending_.write_end.reset();
  thread_.join();
}

void TcpNode::serve() {
  while (true) {
    std::array<pollfd, 2> waiting{
        {{ending_.read_end.get(), POLLIN, 0}, {listener_.descriptor(), POLLIN, 0}}};
    // Strangers that say nothing must go in time, too.
    ::poll(waiting.data(), waiting.size(), listener_.num_pending() > 0 ? 1000 : -1);
    if (waiting[0].revents != 0) return;
    listener_.serve(0ms);
  }
}

void TcpNode::set_address(int instance, const SocketAddress& address) {
  const std::lock_guard lock(mutex_);
  addresses_.insert_or_assign(instance, address);
}

Payload TcpNode::payload_for(int instance, Purpose purpose, std::uint64_t id) const {
  const Hello hello{session_hash(job_), id, purpose, job_.instance, instance};
  Payload payload{};
  std::memcpy(payload.data(), &hello, sizeof(hello));
  return payload;
}

std::optional<TcpNode::Key> TcpNode::read(const Payload& payload) const {
  Hello hello{};
  std::memcpy(&hello, payload.data(), sizeof(hello));
  if (hello.session != session_hash(job_) || hello.to != job_.instance) return std::nullopt;
  return Key{hello.purpose, hello.id, hello.from};
}

UniqueFd TcpNode::try_to_connect(const Key& key, const std::function<void()>& meanwhile) {
  std::optional<SocketAddress> address;
  {
    const std::lock_guard lock(mutex_);
    const auto found = addresses_.find(key.instance);
    if (found == addresses_.end()) {
      throw Error(ErrorKind::Bug, "TcpNode: nothing says where an instance listens");
    }
    address = found->second;
  }
  return dial(*address, job_.secret, payload_for(key.instance, key.purpose, key.id), kAttempt,
              meanwhile);
}

UniqueFd TcpNode::take(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(key);
  if (found == taken_.end()) return {};
  auto socket = std::move(found->second);
  taken_.erase(found);
  return socket;
}

std::vector<UniqueFd> TcpNode::connect(std::span<const int> instances, Purpose purpose,
                                       std::uint64_t id, const LookAround& look_around) {
  std::vector<UniqueFd> sockets(instances.size());
  const auto missing = [&] {
    std::vector<int> found;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      if (instances[i] != job_.instance && !sockets[i]) found.push_back(instances[i]);
    }
    return found;
  };
  auto last_look = Clock::now();
  const auto look = [&] {
    if (Clock::now() - last_look < kLossCheckInterval) return;
    look_around(missing());
    last_look = Clock::now();
  };
  while (true) {
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const Key key{purpose, id, instances[i]};
      if (instances[i] == job_.instance || sockets[i]) continue;
      sockets[i] = instances[i] < job_.instance ? try_to_connect(key, look) : take(key);
    }
    if (missing().empty()) return sockets;
    look();
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lockstep::comm::tcp
