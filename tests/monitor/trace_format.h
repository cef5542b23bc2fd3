#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

// A trace, looked at without the code that wrote it.

namespace lockstep::testing {

inline std::vector<nlohmann::json> spans_of(const nlohmann::json& trace) {
  std::vector<nlohmann::json> spans;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") spans.push_back(event);
  }
  return spans;
}

inline std::int64_t nanoseconds(const nlohmann::json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

/// Spans of a thread lie within each other or follow each other.
inline void expect_nested(const std::vector<nlohmann::json>& spans) {
  std::map<std::pair<int, int>, std::vector<std::int64_t>> open;
  for (const auto& span : spans) {
    auto& ends = open[{span["pid"].get<int>(), span["tid"].get<int>()}];
    const auto begin = nanoseconds(span["ts"]);
    const auto end = begin + nanoseconds(span["dur"]);
    while (!ends.empty() && ends.back() <= begin) ends.pop_back();
    if (!ends.empty()) {
      EXPECT_LE(end, ends.back()) << span;
    }
    ends.push_back(end);
  }
}

/// What the description of the trace-event format demands of the kinds of events that we write.
inline void expect_format(const nlohmann::json& trace) {
  ASSERT_TRUE(trace["traceEvents"].is_array());
  std::set<std::pair<int, int>> named_threads;
  std::set<int> named_processes;
  double last = 0;
  for (const auto& event : trace["traceEvents"]) {
    ASSERT_TRUE(event["pid"].is_number_integer() && event["tid"].is_number_integer()) << event;
    const std::pair row{event["pid"].get<int>(), event["tid"].get<int>()};
    if (event["ph"] == "M") {
      if (event["name"] == "thread_name") named_threads.insert(row);
      if (event["name"] == "process_name") named_processes.insert(row.first);
      EXPECT_TRUE(event["args"].is_object()) << event;
      continue;
    }
    ASSERT_EQ(event["ph"], "X") << event;
    EXPECT_TRUE(event["name"].is_string() && event["cat"].is_string()) << event;
    EXPECT_GE(event["dur"].get<double>(), 0) << event;
    EXPECT_GE(event["ts"].get<double>(), last) << event;
    EXPECT_TRUE(named_threads.contains(row) && named_processes.contains(row.first)) << event;
    last = event["ts"].get<double>();
  }
  expect_nested(spans_of(trace));
}

}  // namespace lockstep::testing
