#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/base/strings.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {

/// A dashboard of jobs that are not there, in a process of its own.
class DashboardProcess {
 public:
  explicit DashboardProcess(std::vector<std::string> arguments)
      : process_(with_program(std::move(arguments))) {
    EXPECT_TRUE(process_.wait_for("\n", std::chrono::seconds(60)));
    url_ = process_.out().substr(0, process_.out().find('\n'));
    url_.erase(0, std::string("serving ").size());
  }

  const std::string& url() const { return url_; }
  int port() const {
    const auto colon = url_.rfind(':');
    return std::atoi(url_.c_str() + colon + 1);
  }
  Subprocess& process() { return process_; }

 private:
  static std::vector<std::string> with_program(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DASHBOARD_DOUBLE_BINARY);
    return arguments;
  }

  Subprocess process_;
  std::string url_;
};

}  // namespace lockstep::testing
