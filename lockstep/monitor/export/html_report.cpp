#include "lockstep/monitor/export/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <string_view>
#include <utility>

#include "lockstep/base/strings.h"

namespace lockstep::monitor {
namespace {

/// A curve has at most about this number of points on the page.
constexpr std::size_t kMostPoints = 400;
/// Curves of this number of points or fewer also show each point.
constexpr std::size_t kMostDots = 40;
constexpr std::size_t kMostEvents = 500;
/// Larger values are drawn at the edge, so that the arithmetic of the axes stays finite.
constexpr double kMostDrawn = 1e300;
constexpr double kLeastDrawn = 1e-300;

// The size of a chart in its own units, and its plot area. A phone shows about one pixel per unit.
constexpr double kWidth = 360;
constexpr double kHeight = 200;
constexpr double kLeft = 48;
constexpr double kRight = 350;
constexpr double kTop = 10;
constexpr double kBottom = 172;

/// Colours are pairs with a contrast of at least 4.5 for text and 3 for marks, in both themes, as
/// in the dashboard.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --page: #f5f6f8; --panel: #ffffff; --text: #1a1d23;
  --quiet: #555c69; --line: #c9ced8; --good: #1b7a3d; --bad: #b3261e; --warn: #8a4b00;
  --c0: #1f5fbf; --c1: #b3261e; --c2: #1b7a3d; --c3: #8e2f8e;
  --data: #8a5a00; --compute: #1f5fbf; --reduce: #8e2f8e; --idle: #7b8290; }
@media (prefers-color-scheme: dark) {
  :root { --page: #12151b; --panel: #1b2029; --text: #e9ecf2; --quiet: #a7afbf; --line: #3b4352;
    --good: #6fd08c; --bad: #ff9b92; --warn: #ffc078;
    --c0: #7fb0ff; --c1: #ff9b92; --c2: #6fd08c; --c3: #dc8fdc;
    --data: #e0b050; --compute: #7fb0ff; --reduce: #dc8fdc; --idle: #8d95a5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--page);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.4rem; }
h2 { margin: 0 0 .5rem; font-size: 1.1rem; }
section { margin: 1rem 0; padding: 1rem; background: var(--panel); border: 1px solid var(--line);
  border-radius: .5rem; }
.quiet { color: var(--quiet); }
.outcome { margin: .25rem 0; font-weight: 600; }
.finished { color: var(--good); } .stopped { color: var(--warn); } .failed { color: var(--bad); }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
figure { margin: 0; min-width: 0; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--quiet); font: 11px system-ui, sans-serif; }
.grid { stroke: var(--line); stroke-width: 1; }
.curve path { fill: none; stroke: currentColor; stroke-width: 1.5; stroke-linejoin: round; }
.curve circle { fill: currentColor; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.curve.c1 path { stroke-dasharray: 6 3; } .curve.c3 path { stroke-dasharray: 2 3; }
.key { margin-right: 1rem; white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
.facts th { width: 14rem; max-width: 40%; font-weight: 400; color: var(--quiet); }
.bar { display: flex; min-width: 8rem; height: 1rem; border-radius: .25rem; overflow: hidden; }
.data { background: var(--data); } .compute { background: var(--compute); }
.reduce { background: var(--reduce); } .idle { background: var(--idle); }
.swatch { display: inline-block; width: .75rem; height: .75rem; margin-right: .35rem; }
code, pre { font: .9rem/1.4 ui-monospace, monospace; }
pre { margin: 0; white-space: pre-wrap; }
summary { cursor: pointer; }
)";

/// Text in elements and in quoted attributes. HTML allows no control characters but white space.
std::string escape(std::string_view text) {
  std::string escaped;
  for (const char letter : to_utf8(std::string(text))) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_space = letter == '\n' || letter == '\t';
    if (letter == '&') {
      escaped += "&amp;";
    } else if (letter == '<') {
      escaped += "&lt;";
    } else if (letter == '>') {
      escaped += "&gt;";
    } else if (letter == '"') {
      escaped += "&quot;";
    } else if (letter == '\'') {
      escaped += "&#39;";
    } else if ((byte < 0x20 && !is_space) || byte == 0x7F) {
      escaped += '?';
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

/// "12", "0.25", "40k", "1.5M"
std::string number_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 && size < 1e12) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4 && size < 1e6) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

/// "2026-11-15 21:40:07 UTC"
std::string time_text(double unix_s) {
  constexpr double kLatest = 1e11;
  if (!(std::abs(unix_s) < kLatest)) return "unknown";
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", time.tm_year + 1900,
                     time.tm_mon + 1, time.tm_mday, time.tm_hour, time.tm_min, time.tm_sec);
}

// Charts.

/// The range of an axis, which begins and ends with a tick if it is extended to `step`.
struct Axis {
  double low = 0;
  double high = 1;
  double step = 1;

  double place(double value, double from, double to) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

/// 1, 2 or 5 times a power of ten, so that about `count` steps cover the range.
double step_of(double range, int count) {
  const double rough = range / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

enum class AxisEnds { AtData, AtTicks };

Axis axis_of(double low, double high, int ticks, AxisEnds ends) {
  const double size = std::max(std::abs(low), std::abs(high));
  // Equal values, and those that differ only by rounding, are a line in the middle.
  if (high - low <= 1e-9 * size || size < kLeastDrawn) {
    const double margin = size < kLeastDrawn ? 1 : 0.1 * size;
    low -= margin;
    high += margin;
  }
  Axis axis{.low = low, .high = high, .step = step_of(high - low, ticks)};
  if (ends == AxisEnds::AtData) return axis;
  axis.low = std::floor(low / axis.step) * axis.step;
  axis.high = std::ceil(high / axis.step) * axis.step;
  return axis;
}

/// Neighbouring points without a gap.
using Segment = std::vector<ReportPoint>;

bool is_drawn(const ReportPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

/// The number of values that one point of the page stands for.
std::size_t values_per_point(const ReportCurve& curve) {
  return (curve.points.size() + kMostPoints - 1) / kMostPoints;
}

std::vector<Segment> segments_of(const ReportCurve& curve) {
  const auto group = values_per_point(curve);
  std::vector<Segment> segments;
  ReportPoint sum;
  std::size_t count = 0;
  bool begins = true;
  const auto flush = [&] {
    if (count == 0) return;
    if (std::exchange(begins, false)) segments.emplace_back();
    const auto values = static_cast<double>(std::exchange(count, 0));
    segments.back().push_back({sum.x / values, sum.y / values});
    sum = {};
  };
  for (const auto& point : curve.points) {
    if (!is_drawn(point)) {
      flush();
      begins = true;
      continue;
    }
    // Clamped, so that sums and the range of an axis stay finite.
    sum.x += std::clamp(point.x, -kMostDrawn, kMostDrawn);
    sum.y += std::clamp(point.y, -kMostDrawn, kMostDrawn);
    if (++count == group) flush();
  }
  flush();
  return segments;
}

/// A curve with at least one point that can be drawn.
struct DrawnCurve {
  const ReportCurve& curve;
  std::size_t colour = 0;  ///< its number in the style sheet
  std::vector<Segment> segments;
};

std::vector<DrawnCurve> drawn_curves(const ReportChart& chart) {
  constexpr std::size_t kColours = 4;
  std::vector<DrawnCurve> drawn;
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    auto segments = segments_of(chart.curves[i]);
    if (!segments.empty()) drawn.push_back({chart.curves[i], i % kColours, std::move(segments)});
  }
  return drawn;
}

struct PlotAxes {
  Axis x;
  Axis y;
};

PlotAxes axes_of(const std::vector<DrawnCurve>& curves) {
  const auto first = curves.front().segments.front().front();
  auto low = first;
  auto high = first;
  for (const auto& curve : curves) {
    for (const auto& segment : curve.segments) {
      for (const auto& [x, y] : segment) {
        low = {std::min(low.x, x), std::min(low.y, y)};
        high = {std::max(high.x, x), std::max(high.y, y)};
      }
    }
  }
  PlotAxes axes{.x = axis_of(low.x, high.x, 4, AxisEnds::AtData),
                .y = axis_of(low.y, high.y, 4, AxisEnds::AtTicks)};
  axes.x.step = std::max(1.0, axes.x.step);  // x counts steps
  return axes;
}

std::string grid_of(const PlotAxes& axes) {
  std::string text;
  const auto each_tick = [](const Axis& axis, const auto& draw) {
    // A tick at an end must not be lost to rounding.
    const auto first = std::ceil(axis.low / axis.step - 1e-6);
    const auto last = std::floor(axis.high / axis.step + 1e-6);
    for (auto i = first; i <= last; ++i) draw(i * axis.step + 0.0);  // never "-0"
  };
  each_tick(axes.y, [&](double value) {
    const double y = axes.y.place(value, kBottom, kTop);
    text += fmt::format(R"(<path class="grid" d="M{} {:.1f}H{}"/>)", kLeft, y, kRight);
    text += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 4, y + 4,
                        number_text(value));
  });
  each_tick(axes.x, [&](double value) {
    const double x = axes.x.place(value, kLeft, kRight);
    text += fmt::format(R"(<path class="grid" d="M{:.1f} {}V{}"/>)", x, kBottom, kBottom + 4);
    text += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x,
                        kBottom + 16, number_text(value));
  });
  return text;
}

std::string curve_text(const DrawnCurve& curve, const PlotAxes& axes) {
  auto text = fmt::format(R"(<g class="curve c{}">)", curve.colour);
  std::string path;
  std::string dots;
  for (const auto& segment : curve.segments) {
    const bool shows_dots = segment.size() == 1 || curve.curve.points.size() <= kMostDots;
    char command = 'M';
    for (const auto& [value_x, value_y] : segment) {
      const double x = axes.x.place(value_x, kLeft, kRight);
      const double y = axes.y.place(value_y, kBottom, kTop);
      if (segment.size() > 1) path += fmt::format("{}{:.1f} {:.1f}", command, x, y);
      if (shows_dots) dots += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.5"/>)", x, y);
      command = 'L';
    }
  }
  if (!path.empty()) text += fmt::format(R"(<path d="{}"/>)", path);
  return text + dots + "</g>";
}

/// The last value of each curve, and how many values could not be drawn.
std::string legend_of(const ReportChart& chart, const std::vector<DrawnCurve>& drawn) {
  std::string text;
  for (const auto& curve : drawn) {
    const auto& points = curve.curve.points;
    const auto last = std::find_if(points.rbegin(), points.rend(), is_drawn);
    text += fmt::format(R"(<span class="key c{}">{}: {}{}</span>)", curve.colour,
                        escape(curve.curve.name), number_text(last->y),
                        escape(chart.unit.empty() ? "" : " " + chart.unit));
  }
  std::ptrdiff_t gaps = 0;
  std::size_t group = 1;
  for (const auto& curve : chart.curves) {
    gaps += std::count_if(curve.points.begin(), curve.points.end(),
                          [](const auto& point) { return !is_drawn(point); });
    group = std::max(group, values_per_point(curve));
  }
  if (gaps > 0) {
    text += fmt::format(R"(<span class="quiet">{} value{} not finite. </span>)", gaps,
                        gaps == 1 ? " is" : "s are");
  }
  if (group > 1) {
    text += fmt::format(R"(<span class="quiet">Each point is the mean of up to {} values.</span>)",
                        group);
  }
  return text;
}

std::string chart_text(const ReportChart& chart, const std::string& x_label) {
  const auto drawn = drawn_curves(chart);
  const auto title =
      escape(chart.unit.empty() ? chart.title : fmt::format("{} ({})", chart.title, chart.unit));
  auto text = fmt::format("<figure><b>{}</b>", title);
  text += fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{} by {}">)", kWidth,
                      kHeight, title, escape(x_label));
  if (drawn.empty()) {
    text += fmt::format(R"(<text x="{}" y="{}" text-anchor="middle">no values</text>)", kWidth / 2,
                        kHeight / 2);
  } else {
    const auto axes = axes_of(drawn);
    text += grid_of(axes);
    for (const auto& curve : drawn) text += curve_text(curve, axes);
    text += fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kRight, kHeight - 1,
                        escape(x_label));
  }
  return text +
         fmt::format("</svg><figcaption>{}</figcaption></figure>\n", legend_of(chart, drawn));
}

// Tables.

std::string facts_table(const std::vector<ReportFact>& facts) {
  std::string text = "<div class=\"scroll\"><table class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    text +=
        fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape(name), escape(value));
  }
  return text + "</table></div>\n";
}

std::string section(std::string_view id, std::string_view heading, const std::string& content) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, heading, content);
}

std::string facts_section(std::string_view id, std::string_view heading,
                          const std::vector<ReportFact>& facts) {
  return facts.empty() ? std::string() : section(id, heading, facts_table(facts));
}

struct PhaseShare {
  const char* name;
  const char* style;
  double share;
};

/// The shares of the four phases; all are 0 if no time was measured.
std::vector<PhaseShare> shares_of(const events::PhaseSeconds& seconds) {
  const auto known = [](double value) { return std::isfinite(value) ? std::max(0.0, value) : 0; };
  std::vector<PhaseShare> shares{{"waiting for data", "data", known(seconds.data)},
                                 {"compute", "compute", known(seconds.compute)},
                                 {"reduction", "reduce", known(seconds.reduce)},
                                 {"idle", "idle", known(seconds.idle)}};
  double sum = 0;
  for (const auto& phase : shares) sum += phase.share;
  if (sum > 0) {
    for (auto& phase : shares) phase.share /= sum;
  }
  return shares;
}

std::string phases_row(const ReportPhases& phases) {
  const auto shares = shares_of(phases.seconds);
  auto text =
      fmt::format("<tr><th scope=\"row\">{}</th><td><div class=\"bar\" aria-hidden=\"true\">",
                  escape(phases.name));
  for (const auto& [name, style, share] : shares) {
    if (share > 0) {
      text += fmt::format(R"(<i class="{}" style="width:{:.2f}%"></i>)", style, 100 * share);
    }
  }
  text += "</div></td>";
  for (const auto& phase : shares) text += fmt::format("<td>{:.1f} %</td>", 100 * phase.share);
  return text + "</tr>\n";
}

std::string phases_section(const RunReport& report) {
  if (report.phases.empty()) return {};
  std::string table = "<div class=\"scroll\"><table>\n<tr><th></th><th></th>";
  for (const auto& [name, style, share] : shares_of({})) {
    table += fmt::format("<th scope=\"col\"><span class=\"swatch {}\"></span>{}</th>", style, name);
  }
  table += "</tr>\n";
  for (const auto& phases : report.phases) table += phases_row(phases);
  table += "</table></div>\n";
  if (!report.bottleneck.empty()) {
    table += fmt::format("<p>Bottleneck: {}</p>\n", escape(report.bottleneck));
  }
  return section("phases", "Where the time went", table);
}

std::string events_section(const std::vector<ReportEvent>& events) {
  if (events.empty()) return {};
  std::string table;
  const auto skipped = events.size() - std::min(events.size(), kMostEvents);
  if (skipped > 0) {
    table = fmt::format("<p class=\"quiet\">{} earlier events are left out.</p>\n", skipped);
  }
  table +=
      "<div class=\"scroll\"><table>\n"
      "<tr><th scope=\"col\">time</th><th scope=\"col\">event</th>"
      "<th scope=\"col\">details</th></tr>\n";
  for (auto event = events.begin() + static_cast<std::ptrdiff_t>(skipped); event != events.end();
       ++event) {
    table += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", time_text(event->unix_s),
                         escape(event->name), escape(event->text));
  }
  return section("events", "Events", table + "</table></div>\n");
}

std::string charts_section(const RunReport& report) {
  if (report.charts.empty()) return {};
  std::string charts = "<div class=\"charts\">\n";
  for (const auto& chart : report.charts) charts += chart_text(chart, report.x_label);
  return section("curves", "Curves", charts + "</div>\n");
}

std::string results_section(const RunReport& report) {
  auto facts = report.results;
  if (!report.digest.empty()) facts.push_back({"digest of the weights", report.digest});
  return facts_section("results", "Results", facts);
}

std::string command_section(const RunReport& report) {
  if (report.command.empty()) return {};
  return section("command", "Command", fmt::format("<pre>{}</pre>\n", escape(report.command)));
}

std::string options_section(const RunReport& report) {
  if (report.options.empty()) return {};
  return section("options", "Options",
                 fmt::format("<details><summary>{} options</summary>\n{}</details>\n",
                             report.options.size(), facts_table(report.options)));
}

struct OutcomeText {
  const char* style;
  const char* sentence;
};

OutcomeText describe_outcome(RunReport::Outcome outcome) {
  switch (outcome) {
    case RunReport::Outcome::Finished:
      return {"finished", "The run finished."};
    case RunReport::Outcome::Stopped:
      return {"stopped", "The run stopped early."};
    case RunReport::Outcome::Failed:
      return {"failed", "The run failed."};
  }
  return {"failed", ""};
}

std::string header_of(const RunReport& report) {
  const auto [style, sentence] = describe_outcome(report.outcome);
  auto text = fmt::format("<header>\n<h1>{}</h1>\n<p class=\"outcome {}\">{}</p>\n",
                          escape(report.title), style, sentence);
  if (!report.reason.empty()) text += fmt::format("<p>{}</p>\n", escape(report.reason));
  return text + fmt::format("<p class=\"quiet\">Report of {}</p>\n</header>\n",
                            time_text(report.written_s));
}

}  // namespace

std::string to_html(const RunReport& report) {
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
             escape(report.title), kStyle) +
         header_of(report) + "<main>\n" + results_section(report) + charts_section(report) +
         phases_section(report) + events_section(report.events) + command_section(report) +
         facts_section("environment", "Environment", report.environment) + options_section(report) +
         "</main>\n</body>\n</html>\n";
}

}  // namespace lockstep::monitor
