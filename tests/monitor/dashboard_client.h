#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "tests/monitor/http_client.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {

// What a test asks a dashboard that a command has started.

/// Behind the greeting, on whatever line it stands.
inline std::string url_of(Subprocess& process) {
  EXPECT_TRUE(process.wait_for("dashboard: http", 60s));
  EXPECT_TRUE(process.wait_for("/\n", 60s));
  const auto said = process.out() + process.err();
  const auto begin = said.find("http");
  return said.substr(begin, said.find('\n', begin) - begin);
}

inline int port_of(const std::string& url) {
  return std::stoi(url.substr(url.rfind(':') + 1));
}

inline nlohmann::json jobs_at(int port) {
  const auto answer = ask(port, "GET /api/jobs");
  const auto body = answer.find("\r\n\r\n");
  return nlohmann::json::parse(answer.substr(body + 4)).at("jobs");
}

/// A page in a browser: asks for the jobs, and then again and again for a change.
class OpenPage {
 public:
  explicit OpenPage(int port) : connection_(port) {}

  void ask() {
    const auto known = tag_.empty() ? "" : "If-None-Match: " + tag_ + "\r\nPrefer: wait\r\n";
    connection_.send("GET /api/jobs HTTP/1.1\r\nHost: localhost\r\n" + known + "\r\n");
  }

  /// The answer to a request: "HTTP/1.1 200 OK\r\n…". Empty if the server closes the connection, or
  /// if the time is over.
  std::string receive(std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
    auto& text = connection_.read();
    if (!connection_.read_until("\r\n\r\n", deadline)) return {};
    const auto head = text.substr(0, text.find("\r\n\r\n") + 4);
    const auto length = field(head, "Content-Length");
    const auto size = head.size() + (length.empty() ? 0 : std::stoul(length));
    if (!connection_.read_at_least(size, deadline)) return {};
    auto answer = text.substr(0, size);
    text.erase(0, size);
    if (const auto tag = field(head, "ETag"); !tag.empty()) tag_ = tag;
    return answer;
  }

  /// Asks until the jobs have changed. Nothing if the server closes the connection, if it refuses
  /// an answer, or if the time is over.
  std::optional<nlohmann::json> next(
      std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
    std::string answer;
    do {
      ask();
      answer = receive(deadline);
    } while (status_of(answer) == 304);
    if (status_of(answer) != 200) return {};
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  }

 private:
  static std::string field(const std::string& head, const std::string& name) {
    const auto begin = head.find("\r\n" + name + ": ");
    if (begin == std::string::npos) return {};
    const auto value = begin + name.size() + 4;
    return head.substr(value, head.find("\r\n", value) - value);
  }

  RawConnection connection_;
  std::string tag_;
};

}  // namespace lockstep::testing
