#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::testing {

/// A connection to a port of this machine, over which anything may be sent.
class RawConnection {
 public:
  explicit RawConnection(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      throw io_error("connect");
    }
  }

  /// Sends what fits at once; whether the other side still takes anything.
  bool send(std::string_view bytes) const {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
           errno == EAGAIN;
  }

  /// Reads on until the text has come, the other side has closed, or time is over.
  bool read_until(std::string_view text, std::chrono::milliseconds deadline) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (read_.find(text) == std::string::npos) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      if (left.count() <= 0 || !read_some(left)) return false;
    }
    return true;
  }

  /// Reads on until this many bytes have come, the other side has closed, or time is over.
  bool read_at_least(std::size_t bytes, std::chrono::milliseconds deadline) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (read_.size() < bytes) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      if (left.count() <= 0 || !read_some(left)) return false;
    }
    return true;
  }

  /// Everything until the other side closes.
  std::string read_all(std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (true) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      if (left.count() <= 0 || !read_some(left)) return read_;
    }
  }

  /// Whether the other side has closed, within this time.
  bool is_closed_within(std::chrono::milliseconds deadline) {
    read_all(deadline);
    return is_closed_;
  }

  std::string& read() { return read_; }
  int fd() const { return fd_.get(); }

 private:
  bool read_some(std::chrono::milliseconds timeout) {
    pollfd readable{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, static_cast<int>(timeout.count())) <= 0) return false;
    char buffer[65536];
    const auto count = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
    is_closed_ = count <= 0;
    if (count > 0) read_.append(buffer, static_cast<std::size_t>(count));
    return count > 0;
  }

  UniqueFd fd_;
  std::string read_;
  bool is_closed_ = false;
};

/// Sends a request with these lines of headers, and returns the whole answer.
inline std::string ask(int port, const std::string& first_line,
                       const std::string& headers = "Host: localhost\r\n") {
  RawConnection connection(port);
  connection.send(first_line + " HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
  return connection.read_all();
}

inline int status_of(const std::string& answer) {
  return answer.size() > 12 && answer.starts_with("HTTP/1.") ? std::stoi(answer.substr(9, 3)) : 0;
}

}  // namespace lockstep::testing
