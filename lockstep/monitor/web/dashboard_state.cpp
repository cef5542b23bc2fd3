#include "lockstep/monitor/web/dashboard_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <exception>
#include <set>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::size_t kMostJobs = 64;
constexpr int kMostEvents = 100;

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

double number(const Json& job, const char* name) {
  const auto found = job.find(name);
  return found != job.end() && found->is_number() ? found->get<double>() : std::nan("");
}

/// JSON has no word for what is not a number.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.6g}", value));
}

Json to_json(const CurveHistory& history) {
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
    auto& history = curves_[id];
    const auto step = number(job, "step");
    if (std::isfinite(step)) {
      history.add({.step = static_cast<std::int64_t>(step),
                   .loss = number(job, "loss"),
                   .accuracy = number(job, "accuracy"),
                   .samples_per_second = number(job, "samples_per_second")});
    }
    job["curves"] = to_json(history);
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
