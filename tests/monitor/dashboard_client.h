#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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

}  // namespace lockstep::testing
