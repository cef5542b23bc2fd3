#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "lockstep/base/version.h"
#include "lockstep/monitor/export/span_recorder.h"
#include "lockstep/monitor/export/trace_writer.h"
#include "tests/monitor/trace_format.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::monitor {
namespace {

using events::Span;
using events::SpanKind;
using events::TimedScope;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::expect_error;
using testing::expect_format;
using testing::expect_nested;
using testing::nanoseconds;
using testing::ScratchFolder;
using testing::spans_of;

class TraceTest : public ::testing::Test {
 protected:
  std::string span_path(int instance) const {
    return folder_.path() + "/" + std::to_string(instance) + ".spans";
  }

  Json written(const std::vector<InstanceSpans>& instances, const TraceClocks& clocks = {}) const {
    write_trace(trace_path_, instances, clocks);
    return Json::parse(read_file(trace_path_));
  }

  ScratchFolder folder_;
  std::string trace_path_ = folder_.path() + "/trace.json";
};

/// An instance with one thread, which did one thing.
InstanceSpans made_instance(int instance, const std::string& host, const std::string& boot,
                            Span span) {
  return {.instance = instance,
          .attempt = 0,
          .process = 100 + instance,
          .host = host,
          .boot = boot,
          .wall_minus_monotonic = 0,
          .tracks = {{.name = "device 0", .spans = {span}, .lost = 0}}};
}

TEST(SpanFileTest, IsPackedToBeSentAndReadElsewhere) {
  auto instance =
      made_instance(3, "b", "boot", {.kind = SpanKind::Load, .begin = 5, .end = 9, .step = 2});
  instance.attempt = 1;
  instance.wall_minus_monotonic = 77;
  // A ring that is full, and one that is not.
  instance.tracks.push_back({.name = "loader 0",
                             .spans = {{.kind = SpanKind::Wait, .begin = 1, .end = 2, .step = 1},
                                       {.kind = SpanKind::Reduce, .begin = 3, .end = 4, .step = 2}},
                             .lost = 5});
  const auto read = read_spans(pack_spans(instance), "packed");
  EXPECT_EQ(read.instance, 3);
  EXPECT_EQ(read.attempt, 1);
  EXPECT_EQ(read.process, 103);
  EXPECT_EQ(read.host, "b");
  EXPECT_EQ(read.boot, "boot");
  EXPECT_EQ(read.wall_minus_monotonic, 77);
  ASSERT_EQ(read.tracks.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& [name, spans, lost] = instance.tracks[i];
    EXPECT_EQ(read.tracks[i].name, name);
    EXPECT_EQ(read.tracks[i].lost, lost);
    ASSERT_EQ(read.tracks[i].spans.size(), spans.size());
    for (std::size_t k = 0; k < spans.size(); ++k) {
      EXPECT_EQ(read.tracks[i].spans[k].kind, spans[k].kind);
      EXPECT_EQ(read.tracks[i].spans[k].begin, spans[k].begin);
      EXPECT_EQ(read.tracks[i].spans[k].end, spans[k].end);
      EXPECT_EQ(read.tracks[i].spans[k].step, spans[k].step);
    }
  }
}

TEST_F(TraceTest, WritesASpanAsTheFormatHasIt) {
  const auto trace = written({made_instance(
      3, "a", "x",
      {.kind = SpanKind::Reduce, .begin = 5'000'000'000, .end = 5'000'001'234, .step = 17})});
  expect_format(trace);
  const Json expected = {{"ph", "X"}, {"name", "reduce"},      {"cat", "lockstep"},
                         {"ts", 0.0}, {"dur", 1.234},          {"pid", 3},
                         {"tid", 1},  {"args", {{"step", 17}}}};
  EXPECT_EQ(spans_of(trace), std::vector<Json>{expected});
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "instance 3 on a");
  EXPECT_EQ(trace["traceEvents"][2]["args"]["name"], "device 0");
}

TEST_F(TraceTest, NamesEachKindOfSpan) {
  auto instance = made_instance(0, "a", "x", {});
  instance.tracks[0].spans.clear();
  for (int kind = 0; kind < events::kSpanKinds; ++kind) {
    instance.tracks[0].spans.push_back(
        {.kind = static_cast<SpanKind>(kind), .begin = kind * 10, .end = kind * 10 + 5, .step = 1});
  }
  std::vector<std::string> names;
  for (const auto& span : spans_of(written({instance}))) names.push_back(span["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"load", "forward", "backward", "reduce", "update",
                                             "wait", "launch"}));
}

TEST_F(TraceTest, PutsInstancesOfSeveralProcessesOnOneClock) {
  const auto begin = events::monotonic_nanoseconds();
  std::vector<std::unique_ptr<testing::Subprocess>> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(std::make_unique<testing::Subprocess>(std::vector<std::string>{
        SPAN_WORKER_BINARY, span_path(i), std::to_string(i), i < 2 ? "a" : "b", "40"}));
  }
  std::vector<InstanceSpans> instances;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(workers[static_cast<std::size_t>(i)]->wait().exit_code, 0);
    instances.push_back(read_span_file(span_path(i)));
  }
  const auto end = events::monotonic_nanoseconds();
  const auto trace = written(instances);
  expect_format(trace);
  const auto spans = spans_of(trace);
  EXPECT_EQ(spans.size(), 3U * 2 * 40 * 6);
  for (const auto& instance : instances) {
    for (const auto& track : instance.tracks) {
      for (const auto& span : track.spans) {
        EXPECT_TRUE(begin < span.begin && span.begin <= span.end && span.end < end);
      }
    }
  }
  // Two hosts by name, but one machine: its clock is one.
  EXPECT_EQ(trace["otherData"]["clocks"]["b"]["source"], "same clock");
}

TEST_F(TraceTest, KeepsWhatAKilledInstanceHadRecorded) {
  testing::Subprocess worker({SPAN_WORKER_BINARY, span_path(0), "0", "a", "0"});
  ASSERT_TRUE(worker.wait_for("recording"));
  worker.signal(SIGKILL);
  EXPECT_EQ(worker.wait().signal, SIGKILL);
  const auto instance = read_span_file(span_path(0));
  ASSERT_EQ(instance.tracks.size(), 2U);
  EXPECT_GE(instance.tracks[0].spans.size(), 500U);
  expect_format(written({instance}));
}

TEST_F(TraceTest, IsReadWhileTheInstanceRecords) {
  testing::Subprocess worker({SPAN_WORKER_BINARY, span_path(0), "0", "a", "0"});
  ASSERT_TRUE(worker.wait_for("recording"));
  for (int i = 0; i < 50; ++i) expect_nested(spans_of(written({read_span_file(span_path(0))})));
  worker.signal(SIGKILL);
  worker.wait();
}

TEST_F(TraceTest, KeepsTheNewestSpansOfARing) {
  SpanRecorder recorder(span_path(0), {.host = "a", .threads = 2, .spans = 8});
  auto& sink = recorder.track("device 0");
  for (std::int64_t i = 1; i <= 20; ++i) {
    sink.on({.kind = SpanKind::Update, .begin = i * 10, .end = i * 10 + 1, .step = -i});
  }
  const auto track = read_span_file(span_path(0)).tracks.at(0);
  ASSERT_EQ(track.spans.size(), 7U);  // the eighth may be the one that is being replaced
  EXPECT_EQ(track.lost, 13U);
  EXPECT_EQ(track.spans.front().begin, 140);
  EXPECT_EQ(track.spans.back().step, -20);
  EXPECT_EQ(track.spans.back().kind, SpanKind::Update);
  EXPECT_EQ(written({read_span_file(span_path(0))})["otherData"]["spans_replaced_by_newer_ones"],
            13);
}

TEST_F(TraceTest, LeavesOutTimesThatNoClockShows) {
  SpanRecorder recorder(span_path(0), {.host = "a", .threads = 1, .spans = 8});
  auto& sink = recorder.track("device 0");
  sink.on({.begin = -1, .end = 5});
  sink.on({.begin = 9, .end = 8});
  sink.on({.begin = 0, .end = INT64_MAX});
  sink.on({.begin = 20, .end = 30});
  const auto spans = read_span_file(span_path(0)).tracks.at(0).spans;
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].begin, 20);
}

TEST_F(TraceTest, UsesTheStatedOffsetOfAnotherHost) {
  const Span span{.kind = SpanKind::Forward, .begin = 1000, .end = 3000, .step = 1};
  const auto trace = written({made_instance(0, "a", "x", span), made_instance(1, "b", "y", span)},
                             {.offsets = {{"b", 5'000'500}}});
  EXPECT_EQ(spans_of(trace)[1]["ts"], 5000.5);
  EXPECT_EQ(trace["otherData"]["clocks"]["b"],
            (Json{{"offset_ns", 5'000'500}, {"source", "measured"}}));
  EXPECT_EQ(trace["otherData"]["clocks"]["a"]["source"], "same clock");
}

TEST_F(TraceTest, ComparesWallClocksOfHostsWithoutAStatedOffset) {
  const Span span{.kind = SpanKind::Forward, .begin = 1000, .end = 3000, .step = 1};
  auto first = made_instance(0, "a", "x", span);
  auto second = made_instance(1, "b", "y", span);
  first.wall_minus_monotonic = 7000;
  second.wall_minus_monotonic = 5000;
  const auto trace = written({first, second});
  EXPECT_EQ(spans_of(trace)[0]["pid"], 1);
  EXPECT_EQ(spans_of(trace)[1]["ts"], 2.0);
  EXPECT_EQ(trace["otherData"]["clocks"]["b"]["source"], "wall clocks");
}

TEST_F(TraceTest, GivesEachAttemptOfAnInstanceRowsOfItsOwn) {
  const auto first = made_instance(0, "a", "x", {.begin = 0, .end = 10});
  auto second = made_instance(0, "a", "x", {.begin = 5, .end = 20});
  second.attempt = 1;
  const auto trace = written({first, second});
  expect_format(trace);
  EXPECT_EQ(spans_of(trace)[1]["tid"], 2);
  EXPECT_THAT(trace.dump(), HasSubstr("device 0 (after restart 1)"));
}

TEST_F(TraceTest, EscapesNames) {
  auto instance = made_instance(0, "a\"b\\\xff", "x", {.begin = 0, .end = 1});
  instance.tracks[0].name = "line\nfeed";
  EXPECT_EQ(written({instance})["traceEvents"][0]["args"]["name"],
            "instance 0 on a\"b\\\xef\xbf\xbd");
}

TEST_F(TraceTest, RefusesATraceOfNothingAndOffsetsOfStrangers) {
  expect_error([&] { write_trace(trace_path_, {}); }, ErrorKind::Options, "found none");
  const std::vector instances{made_instance(0, "a", "x", {})};
  expect_error(
      [&] {
        write_trace(trace_path_, instances, {.offsets = {{"c", 1}}});
      },
      ErrorKind::Options, "for host c, which has no instance");
  EXPECT_FALSE(std::filesystem::exists(trace_path_));
}

TEST_F(TraceTest, NamesAFileThatCannotBeWritten) {
  const std::vector instances{made_instance(0, "a", "x", {})};
  expect_error([&] { write_trace(folder_.path() + "/no/trace.json", instances); }, ErrorKind::Io,
               "/no/trace.json");
  expect_error([&] { SpanRecorder(folder_.path() + "/no/0.spans", {}); }, ErrorKind::Io,
               "/no/0.spans");
}

TEST_F(TraceTest, RefusesDamagedFiles) {
  const auto refuse = [&](const std::string& content, const std::string& why) {
    expect_error([&] { read_span_file(folder_.write("bad", content)); }, ErrorKind::Data, why);
  };
  { const SpanRecorder recorder(span_path(0), {.threads = 1, .spans = 4}); }
  auto whole = read_file(span_path(0));
  refuse("", "found 0 bytes");
  refuse("{}", "found 2 bytes");
  refuse(std::string(4096, 'x'), "another kind of file");
  refuse(whole.substr(0, whole.size() - 1), "expected " + std::to_string(whole.size()) + " bytes");
  // Sizes that overflow when they are multiplied.
  std::fill_n(whole.begin() + offsetof(FileHeader, spans_per_track), 8, '\x7f');
  refuse(whole, "damaged header");
}

TEST_F(TraceTest, RefusesNumbersThatMakeNoSense) {
  expect_error([&] { SpanRecorder(span_path(0), {.threads = 0}); }, ErrorKind::Options,
               "expected 1 to 4096 threads, found 0");
  expect_error([&] { SpanRecorder(span_path(0), {.spans = 1}); }, ErrorKind::Options,
               "spans of a thread, found 1");
  SpanRecorder recorder(span_path(0), {.threads = 1, .spans = 4});
  recorder.track("device 0");
  expect_error([&] { recorder.track("loader"); }, ErrorKind::Options,
               "at most 1 threads, found another one: loader");
}

/// The best of many rounds: others use this machine too.
double nanoseconds_per_span(events::SpanSink* sink) {
  constexpr int kSpans = 10'000;
  auto best = std::chrono::duration<double, std::nano>::max();
  for (int round = 0; round < 50; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kSpans; ++i) const TimedScope scope(sink, SpanKind::Forward, i);
    best = std::min<decltype(best)>(best, std::chrono::steady_clock::now() - begin);
  }
  return best.count() / kSpans;
}

/// A suite of its own, because it measures time and runs alone.
class SpanCostTest : public TraceTest {};

TEST_F(SpanCostTest, TakesLessThan100NanosecondsForASpan) {
  if (!sanitizers().empty()) GTEST_SKIP() << "a sanitizer makes all slower";
  SpanRecorder recorder(span_path(0), {.host = "a"});
  const auto cost = nanoseconds_per_span(&recorder.track("device 0"));
  RecordProperty("nanoseconds_per_span", std::to_string(cost));
  std::printf("%.1f ns per span, %.1f ns without a sink\n", cost, nanoseconds_per_span(nullptr));
  EXPECT_LT(cost, 100);
}

}  // namespace
}  // namespace lockstep::monitor
