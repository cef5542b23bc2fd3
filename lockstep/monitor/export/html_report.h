#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/events/status_sink.h"

namespace lockstep::monitor {

/// A row of a table: a name and its value.
struct ReportFact {
  std::string name;
  std::string value;

  bool operator==(const ReportFact&) const = default;
};

/// A point of a curve. If `y` is not a finite number, the line has a gap there.
struct ReportPoint {
  double x = 0;
  double y = 0;

  bool operator==(const ReportPoint&) const = default;
};

struct ReportCurve {
  std::string name;                   ///< "training"
  std::vector<ReportPoint> points{};  ///< by ascending x
};

struct ReportChart {
  std::string title;   ///< "Loss"
  std::string unit{};  ///< of y, as "%"; empty: none
  std::vector<ReportCurve> curves{};
};

/// The time that instances spent on the phases of their steps.
struct ReportPhases {
  std::string name;  ///< "instance 0"
  events::PhaseSeconds seconds{};
};

struct ReportEvent {
  double unix_s = 0;  ///< seconds since 1970
  std::string name;   ///< "restart"
  std::string text{};
};

/// Everything that the report of a training run shows. An empty part is left out of the page.
struct RunReport {
  enum class Outcome : std::uint8_t { Finished, Stopped, Failed };

  std::string title;  ///< "resnet20 on fashion-mnist"
  Outcome outcome = Outcome::Finished;
  std::string reason{};  ///< why the run stopped or failed, and what to do
  double written_s = 0;  ///< seconds since 1970 at which the report was written
  std::string digest{};  ///< of the weights
  std::vector<ReportFact> results{};
  std::string x_label = "optimizer step";  ///< of all charts
  std::vector<ReportChart> charts{};
  std::vector<ReportPhases> phases{};
  std::string bottleneck{};
  std::vector<ReportEvent> events{};  ///< by ascending time
  std::vector<ReportFact> environment{};
  std::string command{};
  std::vector<ReportFact> options{};
};

/// Returns the report as one HTML page without scripts and without references to other files.
///
/// The page follows the light or dark theme of the reader, and fits a phone. Curves are inline SVG.
/// A curve of many points is drawn as the means of neighbours. All texts are escaped, and bytes
/// that are not UTF-8 are replaced. A pure function: the same input gives the same page.
std::string to_html(const RunReport& report);

}  // namespace lockstep::monitor
