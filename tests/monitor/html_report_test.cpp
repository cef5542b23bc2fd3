#include "lockstep/monitor/export/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "lockstep/monitor/export/environment_facts.h"

namespace lockstep::monitor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// The page of a report that has one chart of one curve.
std::string page_with(std::vector<ReportPoint> points) {
  RunReport report{.title = "t"};
  report.charts = {
      {.title = "Loss", .curves = {{.name = "training", .points = std::move(points)}}}};
  return to_html(report);
}

/// The "M1.5 2L3 4" of all curves.
std::vector<std::string> paths_in(const std::string& page) {
  static const std::regex kPath(R"re(<g class="curve c[0-9]"><path d="([^"]*)"/>)re");
  std::vector<std::string> paths;
  for (std::sregex_iterator match(page.begin(), page.end(), kPath), end; match != end; ++match) {
    paths.push_back((*match)[1]);
  }
  return paths;
}

TEST(HtmlReportTest, ShowsEachPartOnce) {
  RunReport report{.title = "resnet20 on cifar10"};
  report.written_s = 1794778807;
  report.digest = "0123456789abcdef";
  report.results = {{"test accuracy", "91.25 %"}};
  report.charts = {{.title = "Loss",
                    .curves = {{.name = "training", .points = {{1, 2.5}, {2, 1.5}, {3, 1.25}}},
                               {.name = "test", .points = {{3, 1.5}}}}},
                   {.title = "Accuracy",
                    .unit = "%",
                    .curves = {{.name = "training", .points = {{1, 10}, {3, 45}}}}}};
  report.phases = {
      {.name = "instance 0", .seconds = {.data = 1, .compute = 16, .reduce = 2, .idle = 1}}};
  report.bottleneck = "compute-bound";
  report.events = {{.unix_s = 1794778800, .name = "restart", .text = "instance 2"}};
  report.environment = {{"host", "node7"}};
  report.command = "lockstep train --lr 0.1";
  report.options = {{"--lr", "0.1"}};
  const auto page = to_html(report);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>\n"));
  for (const auto* part :
       {"<title>resnet20 on cifar10</title>", "<h1>resnet20 on cifar10</h1>", "The run finished.",
        "Report of 2026-11-15 21:40:07 UTC", "<td>0123456789abcdef</td>", "<td>91.25 %</td>",
        "training: 1.25<", "test: 1.5<", "training: 45 %<", "<b>Accuracy (%)</b>", ">5.0 %</td>",
        ">80.0 %</td>", ">10.0 %</td>", "Bottleneck: compute-bound",
        "<td>2026-11-15 21:40:00 UTC</td><td>restart</td><td>instance 2</td>", "<td>node7</td>",
        "<pre>lockstep train --lr 0.1</pre>", "<td>0.1</td>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  for (const auto* id :
       {"results", "curves", "phases", "events", "command", "environment", "options"}) {
    EXPECT_EQ(count(page, std::string("<section id=\"") + id + "\">"), 1U) << id;
  }
  EXPECT_EQ(count(page, "<svg "), 2U);
  EXPECT_EQ(count(page, "<g class=\"curve "), 3U);
  EXPECT_EQ(count(page, "<section"), count(page, "</section>"));
}

TEST(HtmlReportTest, NeedsNoScriptAndNoOtherFile) {
  const auto page = page_with({{1, 2}, {2, 3}});
  for (const auto* part : {"<script", "<link", "<img", "http", "src=", "url(", "@import"}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
  EXPECT_THAT(page, AllOf(HasSubstr("prefers-color-scheme: dark"), HasSubstr("width=device-width"),
                          HasSubstr("<meta charset=\"utf-8\">")));
}

TEST(HtmlReportTest, LeavesOutEmptyParts) {
  const auto page = to_html({.title = "nothing"});
  EXPECT_THAT(page, AllOf(HasSubstr("<h1>nothing</h1>"), Not(HasSubstr("<section"))));
}

TEST(HtmlReportTest, EscapesTextEverywhere) {
  const std::string bad = "<b>&\"'\x01\xFF";
  const std::string good = "&lt;b&gt;&amp;&quot;&#39;??";
  RunReport report{.title = bad};
  report.reason = bad;
  report.digest = bad;
  report.results = {{bad, bad}};
  report.x_label = bad;
  report.charts = {{.title = bad, .unit = bad, .curves = {{.name = bad, .points = {{1, 1}}}}}};
  report.phases = {{.name = bad}};
  report.bottleneck = bad;
  report.events = {{.unix_s = 1, .name = bad, .text = bad}};
  report.environment = {{bad, bad}};
  report.command = bad;
  report.options = {{bad, bad}};
  const auto page = to_html(report);
  EXPECT_THAT(page, Not(HasSubstr("<b>&\"")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("\x01")), Not(HasSubstr("\xFF"))));
  // Title twice, reason, digest, result twice, x label twice, chart title and its unit twice each,
  // curve and its unit, phases, bottleneck, event twice, environment twice, command, options twice.
  EXPECT_EQ(count(page, good), 23U);
}

TEST(HtmlReportTest, KeepsTextInUtf8AndLineBreaks) {
  RunReport report{.title = "Zürich"};
  report.command = "a \\\n\tb";
  EXPECT_THAT(to_html(report), AllOf(HasSubstr("<h1>Zürich</h1>"), HasSubstr("a \\\n\tb")));
}

TEST(HtmlReportTest, SaysWhyARunEndedEarly) {
  RunReport report{.title = "t", .outcome = RunReport::Outcome::Stopped, .reason = "SIGTERM"};
  EXPECT_THAT(to_html(report),
              AllOf(HasSubstr("<p class=\"outcome stopped\">The run stopped early.</p>\n"
                              "<p>SIGTERM</p>")));
  report.outcome = RunReport::Outcome::Failed;
  EXPECT_THAT(to_html(report), HasSubstr("<p class=\"outcome failed\">The run failed.</p>"));
}

TEST(HtmlReportCurveTest, SaysSoIfThereAreNoValues) {
  for (const auto& points :
       {std::vector<ReportPoint>{}, {{1, kNan}}, {{kNan, 1}}, {{1, kInfinity}}}) {
    const auto page = page_with(points);
    EXPECT_THAT(page, HasSubstr(">no values</text>"));
    EXPECT_EQ(count(page, "<g class=\"curve "), 0U);
    EXPECT_EQ(count(page, "<svg "), 1U);
  }
}

TEST(HtmlReportCurveTest, ShowsOnePointAsADot) {
  const auto page = page_with({{5, 0.25}});
  EXPECT_EQ(count(page, "<circle "), 1U);
  // In the middle of the plot.
  EXPECT_THAT(page,
              HasSubstr("<g class=\"curve c0\"><circle cx=\"199.0\" cy=\"91.0\" r=\"2.5\"/></g>"));
  EXPECT_TRUE(paths_in(page).empty());
}

TEST(HtmlReportCurveTest, DrawsFromTheFirstTickToTheLast) {
  // y has ticks at 0, 1, 2, 3, 4, so both ends lie on the frame.
  EXPECT_EQ(paths_in(page_with({{0, 0}, {50, 4}, {100, 2}})),
            std::vector<std::string>{"M48.0 172.0L199.0 10.0L350.0 91.0"});
}

TEST(HtmlReportCurveTest, BreaksTheLineAtValuesThatAreNotFinite) {
  const auto page =
      page_with({{0, 0}, {25, 4}, {50, kNan}, {75, 2}, {80, -kInfinity}, {90, 2}, {100, 4}});
  const auto paths = paths_in(page);
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_EQ(count(paths.front(), "M"), 2U);
  EXPECT_EQ(count(paths.front(), "L"), 2U);
  EXPECT_EQ(count(page, "<circle "), 5U) << "the single point between two gaps has a dot, too";
  EXPECT_THAT(page, AllOf(HasSubstr("2 values are not finite."), HasSubstr("training: 4<"),
                          Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(HtmlReportCurveTest, DrawsAtMostSomeHundredPoints) {
  std::vector<ReportPoint> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), std::sin(i * 1e-4)});
  const auto page = page_with(points);
  ASSERT_EQ(paths_in(page).size(), 1U);
  EXPECT_EQ(count(paths_in(page).front(), "L"), 399U);
  EXPECT_THAT(page, HasSubstr("Each point is the mean of up to 250 values."));
  EXPECT_EQ(count(page, "<circle "), 0U);
  EXPECT_LT(page.size(), 20000U);
}

TEST(HtmlReportCurveTest, BearsExtremeValues) {
  const std::vector<std::vector<ReportPoint>> all{
      {{1, 1e308}, {2, -1e308}},      {{1, 5e-324}, {2, 1e-323}},
      {{1, 1}, {2, 1 + 1e-15}},       {{1, 0}, {2, 0}},
      {{1, 1e20}, {2, 1e20 + 65536}}, {{-1e308, 1}, {1e308, 2}},
      {{1e15, 1}, {1e15 + 1, 2}},     {{1, -0.0}, {2, 1}}};
  for (const auto& points : all) {
    const auto page = page_with(points);
    const auto paths = paths_in(page);
    ASSERT_EQ(paths.size(), 1U) << points.front().y;
    EXPECT_EQ(paths.front().find_first_not_of("ML0123456789. "), std::string::npos)
        << paths.front();
    EXPECT_LT(count(page, "class=\"grid\""), 20U);
    EXPECT_THAT(page, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf")), Not(HasSubstr(">-0<"))));
  }
}

TEST(HtmlReportCurveTest, NamesTicksInShort) {
  const auto page = page_with({{0, 0}, {60000, 2000000}});
  EXPECT_THAT(page, AllOf(HasSubstr(">20k</text>"), HasSubstr(">60k</text>"),
                          HasSubstr(">1M</text>"), HasSubstr(">500k</text>")));
}

TEST(HtmlReportPhasesTest, ShowsZeroIfNothingWasMeasured) {
  RunReport report{.title = "t"};
  report.phases = {{.name = "instance 0"},
                   {.name = "instance 1", .seconds = {.data = kNan, .compute = 2, .idle = -1}}};
  const auto page = to_html(report);
  EXPECT_EQ(count(page, "<td>0.0 %</td>"), 7U);
  EXPECT_EQ(count(page, "<td>100.0 %</td>"), 1U);
  EXPECT_EQ(count(page, "style=\"width:"), 1U);
}

TEST(HtmlReportEventsTest, KeepsTheNewest) {
  RunReport report{.title = "t"};
  for (int i = 0; i < 600; ++i) {
    report.events.push_back({.unix_s = static_cast<double>(i), .name = "e" + std::to_string(i)});
  }
  report.events.push_back({.unix_s = kNan, .name = "odd"});
  const auto page = to_html(report);
  EXPECT_THAT(page, AllOf(HasSubstr("101 earlier events are left out."), Not(HasSubstr(">e100<")),
                          HasSubstr(">e101<"), HasSubstr("<td>unknown</td><td>odd</td>")));
}

TEST(LibraryFactsTest, ListsTheVariablesThatAreSet) {
  const topology::Environment environment(
      {{"HOME", "/"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}, {"OPENBLAS_CORETYPE", "Haswell"}});
  EXPECT_THAT(library_facts(environment),
              ::testing::ElementsAre(ReportFact{"OPENBLAS_CORETYPE", "Haswell"},
                                     ReportFact{"ONEDNN_MAX_CPU_ISA", "AVX2"}));
}

}  // namespace
}  // namespace lockstep::monitor
