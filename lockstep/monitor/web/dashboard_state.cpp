#include "lockstep/monitor/web/dashboard_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::size_t kMostJobs = 64;
constexpr int kMostEvents = 100;
constexpr std::size_t kMostInstancesWithCurves = 64;

Json parsed(const std::string& text, const char* what) {
  if (text.size() > kMostBytes) {
    throw Error(ErrorKind::Data, fmt::format("{}: expected at most {} bytes, found {}", what,
                                             kMostBytes, text.size()));
  }
  auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    throw Error(ErrorKind::Data, fmt::format("{}: expected JSON, found something else", what));
  }
  return json;
}

double number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

/// An element of an object; null where it is none, or has none of that name.
const Json& element(const Json& object, const char* name) {
  static const Json kNull;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNull;
}

/// JSON has no word for what is not a number.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.6g}", value));
}

Json to_json(const CurveHistory<CurvePoint>& history) {
  Json steps = Json::array();
  Json loss = Json::array();
  Json accuracy = Json::array();
  Json speed = Json::array();
  for (const auto& point : history.points()) {
    steps.push_back(point.step);
    loss.push_back(rounded(point.loss));
    accuracy.push_back(rounded(point.accuracy));
    speed.push_back(rounded(point.samples_per_second));
  }
  return {{"step", steps}, {"loss", loss}, {"accuracy", accuracy}, {"samples_per_second", speed}};
}

std::uint8_t percent(const Json& time, const char* name) {
  const auto share = number(time, name);
  return std::isfinite(share) ? static_cast<std::uint8_t>(100 * std::clamp(share, 0.0, 1.0) + 0.5)
                              : std::uint8_t{0};
}

SharePoint shares_of(const Json& job, std::int64_t step) {
  SharePoint point{.step = step};
  for (const auto& host : element(job, "hosts")) {
    for (const auto& instance : element(host, "instances")) {
      const auto& time = element(instance, "time");
      const auto& index = element(instance, "index");
      if (!time.is_object() || !index.is_number_integer()) continue;
      if (point.instances.size() == kMostInstancesWithCurves) return point;
      point.instances[index.get<int>()] = {.data = percent(time, "data"),
                                           .compute = percent(time, "compute"),
                                           .reduce = percent(time, "reduce"),
                                           .idle = percent(time, "idle")};
    }
  }
  return point;
}

/// A line of each share for each instance; null where a point has it not.
Json to_json(const CurveHistory<SharePoint>& history) {
  Json steps = Json::array();
  Json instances = Json::object();
  const auto& points = history.points();
  for (const auto& point : points) steps.push_back(point.step);
  const auto line = [&](int index, std::uint8_t TimeShares::*share) {
    Json values = Json::array();
    for (const auto& point : points) {
      const auto found = point.instances.find(index);
      values.push_back(found == point.instances.end() ? Json() : Json(found->second.*share));
    }
    return values;
  };
  std::set<int> known;
  for (const auto& point : points) {
    for (const auto& [index, shares] : point.instances) known.insert(index);
  }
  for (const int index : known) {
    if (instances.size() == kMostInstancesWithCurves) break;
    instances[std::to_string(index)] = {{"data", line(index, &TimeShares::data)},
                                        {"compute", line(index, &TimeShares::compute)},
                                        {"reduce", line(index, &TimeShares::reduce)},
                                        {"idle", line(index, &TimeShares::idle)}};
  }
  return {{"step", std::move(steps)}, {"instances", std::move(instances)}};
}

/// The jobs of a snapshot that can be told apart.
Json jobs_of(const Json& snapshot) {
  const auto found = snapshot.is_object() ? snapshot.find("jobs") : snapshot.end();
  if (!snapshot.is_object() || found == snapshot.end() || !found->is_array()) {
    throw Error(ErrorKind::Data, "snapshot: expected a list 'jobs', found none");
  }
  Json jobs = Json::array();
  for (const auto& job : *found) {
    if (jobs.size() == kMostJobs) break;
    if (job.is_object() && job.contains("id") && job["id"].is_string()) jobs.push_back(job);
  }
  return jobs;
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

DashboardState::DashboardState(JobFeed& feed)
    : feed_(feed), text_(std::make_shared<const std::string>(R"({"jobs":[]})")) {}

std::string DashboardState::make_text() {
  auto jobs = jobs_of(parsed(feed_.snapshot(), "snapshot"));
  std::set<std::string> present;
  for (auto& job : jobs) {
    const auto id = job["id"].get<std::string>();
    present.insert(id);
    auto& curves = curves_[id];
    if (const auto step = number(job, "step"); std::isfinite(step)) {
      curves.job.add({.step = static_cast<std::int64_t>(step),
                      .loss = number(job, "loss"),
                      .accuracy = number(job, "accuracy"),
                      .samples_per_second = number(job, "samples_per_second")});
      curves.shares.add(shares_of(job, static_cast<std::int64_t>(step)));
    }
    job["curves"] = to_json(curves.job);
    job["share_curves"] = to_json(curves.shares);
    job["events"] = parsed(feed_.events(id, kMostEvents), "events");
  }
  std::erase_if(curves_, [&](const auto& entry) { return !present.contains(entry.first); });
  last_jobs_ = dumped(jobs);
  return fmt::format(R"({{"jobs":{}}})", last_jobs_);
}

void DashboardState::refresh() {
  std::string text;
  try {
    text = make_text();
  } catch (const std::exception& error) {
    text = fmt::format(R"({{"jobs":{},"problem":{}}})", last_jobs_, dumped(Json(error.what())));
  }
  if (text == *text_) return;
  text_ = std::make_shared<const std::string>(std::move(text));
  ++version_;
}

}  // namespace lockstep::monitor
