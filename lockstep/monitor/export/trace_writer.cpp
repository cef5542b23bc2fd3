#include "lockstep/monitor/export/trace_writer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/partial_file.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBytesPerWrite = std::size_t{1} << 20;

/// A span on the common clock, with its place in the picture.
struct PlacedSpan {
  events::Span span;
  int instance = 0;
  int thread = 0;
};

/// What has to be added to an instance's times, and where that number comes from.
struct ClockOffset {
  std::int64_t nanoseconds = 0;
  const char* source = "same clock";
};

ClockOffset offset_of(const InstanceSpans& instance, const InstanceSpans& first,
                      const TraceClocks& clocks) {
  if (const auto stated = clocks.offsets.find(instance.host); stated != clocks.offsets.end()) {
    return {stated->second, "measured"};
  }
  const bool same_machine = instance.boot.empty() && first.boot.empty()
                                ? instance.host == first.host
                                : instance.boot == first.boot;
  if (same_machine) return {};
  return {instance.wall_minus_monotonic - first.wall_minus_monotonic, "wall clocks"};
}

void check(std::span<const InstanceSpans> instances, const TraceClocks& clocks) {
  if (instances.empty()) {
    throw Error(ErrorKind::Options,
                "trace: expected the spans of at least one instance, found none",
                "start the job with --trace");
  }
  std::set<std::string> hosts;
  for (const auto& instance : instances) hosts.insert(instance.host);
  for (const auto& [host, offset] : clocks.offsets) {
    if (hosts.contains(host)) continue;
    throw Error(
        ErrorKind::Options,
        fmt::format("trace: a clock offset is given for host {}, which has no instance", host));
  }
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

/// Collects events and hands them to the file in large pieces: a trace may be larger than memory
/// should hold twice.
class TraceText {
 public:
  explicit TraceText(const std::string& path) : file_(path) {}

  void add_text(std::string_view text) {
    text_ += text;
    if (text_.size() >= kBytesPerWrite) flush();
  }

  void add_event(std::string_view event) {
    add_text(is_first_ ? "\n" : ",\n");
    is_first_ = false;
    add_text(event);
  }

  void publish() {
    flush();
    file_.publish();
  }

 private:
  void flush() {
    file_.append(std::as_bytes(std::span(text_)));
    text_.clear();
  }

  PartialFile file_;
  std::string text_;
  bool is_first_ = true;
};

void add_metadata(TraceText& text, const char* name, int process, int thread,
                  const Json& arguments) {
  text.add_event(dumped(
      {{"ph", "M"}, {"name", name}, {"pid", process}, {"tid", thread}, {"args", arguments}}));
}

void add_process(TraceText& text, const InstanceSpans& instance) {
  const auto name = fmt::format("instance {} on {}", instance.instance, instance.host);
  add_metadata(text, "process_name", instance.instance, 0, {{"name", name}});
  add_metadata(text, "process_sort_index", instance.instance, 0,
               {{"sort_index", instance.instance}});
}

std::string thread_name(const InstanceSpans& instance, const TrackSpans& track) {
  if (instance.attempt == 0) return track.name;
  return fmt::format("{} (after restart {})", track.name, instance.attempt);
}

/// Outer spans before those within them, as viewers want them.
void sort_by_time(std::vector<PlacedSpan>& spans) {
  std::ranges::sort(spans, [](const PlacedSpan& left, const PlacedSpan& right) {
    return std::tuple(left.span.begin, -left.span.end, left.instance, left.thread) <
           std::tuple(right.span.begin, -right.span.end, right.instance, right.thread);
  });
}

/// Microseconds, as the format has them, to the nanosecond.
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

void add_span(TraceText& text, const PlacedSpan& placed, std::int64_t start) {
  const auto& span = placed.span;
  text.add_event(fmt::format(
      R"({{"ph":"X","name":"{}","cat":"lockstep","ts":{},"dur":{},"pid":{},"tid":{},"args":{{"step":{}}}}})",
      name_of(span.kind), microseconds(span.begin - start), microseconds(span.end - span.begin),
      placed.instance, placed.thread, span.step));
}

/// Names the rows of an instance and collects its spans. An instance that was started again gets
/// rows of its own for each attempt.
class Picture {
 public:
  explicit Picture(TraceText& text) : text_(text) {}

  void add(const InstanceSpans& instance, ClockOffset offset) {
    if (!threads_.contains(instance.instance)) add_process(text_, instance);
    for (const auto& track : instance.tracks) {
      const int thread = ++threads_[instance.instance];
      add_metadata(text_, "thread_name", instance.instance, thread,
                   {{"name", thread_name(instance, track)}});
      add_metadata(text_, "thread_sort_index", instance.instance, thread, {{"sort_index", thread}});
      for (auto span : track.spans) {
        span.begin += offset.nanoseconds;
        span.end += offset.nanoseconds;
        spans_.push_back({.span = span, .instance = instance.instance, .thread = thread});
      }
      lost_ += track.lost;
    }
  }

  void add_spans_to_text() {
    sort_by_time(spans_);
    for (const auto& placed : spans_) add_span(text_, placed, spans_.front().span.begin);
  }

  std::uint64_t lost() const { return lost_; }

 private:
  TraceText& text_;
  std::map<int, int> threads_;
  std::vector<PlacedSpan> spans_;
  std::uint64_t lost_ = 0;
};

}  // namespace

void write_trace(const std::string& path, std::span<const InstanceSpans> instances,
                 const TraceClocks& clocks) {
  check(instances, clocks);
  TraceText text(path);
  Picture picture(text);
  Json told = Json::object();
  text.add_text(R"({"displayTimeUnit":"ms","traceEvents":[)");
  for (const auto& instance : instances) {
    const auto offset = offset_of(instance, instances.front(), clocks);
    picture.add(instance, offset);
    told[instance.host] = {{"offset_ns", offset.nanoseconds}, {"source", offset.source}};
  }
  picture.add_spans_to_text();
  text.add_text("\n],\"otherData\":");
  text.add_text(dumped({{"clocks", told}, {"spans_replaced_by_newer_ones", picture.lost()}}));
  text.add_text("}\n");
  text.publish();
}

}  // namespace lockstep::monitor
