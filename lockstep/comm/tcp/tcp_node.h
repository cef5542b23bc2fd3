#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "lockstep/comm/tcp/listener.h"
#include "lockstep/comm/tcp/socket.h"

namespace lockstep::comm::tcp {

/// What a connection between two instances of a job is for.
enum class Purpose : std::uint32_t { Notes = 1, Data = 2 };

/// Connects an instance with instances on other hosts. Connections are taken at any time, on a
/// thread of its own, and kept until they are asked for. Any thread may call a member.
class TcpNode {
 public:
  struct Job {
    Secret secret;
    /// What sets this start of the job apart: connections of an earlier one are refused.
    std::string session;
    int instance = 0;
    int num_instances = 1;
  };

  /// `listener` is a socket that listens at an address that the others reach.
  TcpNode(UniqueFd listener, Job job);
  ~TcpNode();
  TcpNode(const TcpNode&) = delete;
  TcpNode& operator=(const TcpNode&) = delete;

  int instance() const noexcept { return job_.instance; }
  int port() const noexcept { return port_; }
  /// Says where another instance listens.
  void set_address(int instance, const SocketAddress& address);

  /// Called about every 100 ms with those that have not come. It throws to give up.
  using LookAround = std::function<void(std::span<const int> missing)>;

  /// A connection with each of several instances, which all call it alike; nothing for this one
  /// itself. The later ones connect to the earlier ones.
  std::vector<UniqueFd> connect(std::span<const int> instances, Purpose purpose, std::uint64_t id,
                                const LookAround& look_around);

 private:
  struct Key {
    Purpose purpose;
    std::uint64_t id;
    int instance;
    auto operator<=>(const Key&) const = default;
  };
  void serve();
  Payload payload_for(int instance, Purpose purpose, std::uint64_t id) const;
  std::optional<Key> read(const Payload& payload) const;
  UniqueFd try_to_connect(const Key& key, const std::function<void()>& meanwhile);
  UniqueFd take(const Key& key);

  Job job_;
  int port_;
  Listener listener_;
  Pipe ending_;
  std::mutex mutex_;
  std::map<int, SocketAddress> addresses_;
  std::map<Key, UniqueFd> taken_;  ///< and not yet asked for
  std::thread thread_;             // last: it uses the others
};

}  // namespace lockstep::comm::tcp
