#include "lockstep/monitor/web/dashboard_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <iterator>
#include <optional>
#include <set>
#include <variant>

#include "lockstep/base/error.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostJobs = 64;
constexpr std::size_t kMostInstancesWithCurves = 64;

/// The text of a value. Replaces bytes that are not UTF-8.
std::string to_text(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

double round_to_six_digits(double value) {
  char text[32];
  const auto end = std::to_chars(text, std::end(text), value, std::chars_format::general, 6).ptr;
  std::from_chars(text, end, value);
  return value;
}

/// Rounds all measured values. Removes the unknown members of objects: unset, NaN or infinite.
void tidy(Json& json) {
  if (json.is_number_float()) {
    const double value = json;
    json = std::isfinite(value) ? Json(round_to_six_digits(value)) : Json();
  }
  if (!json.is_structured()) return;
  for (auto& child : json) tidy(child);
  if (!json.is_object()) return;
  for (auto at = json.begin(); at != json.end();) {
    at = at->is_null() ? json.erase(at) : std::next(at);
  }
}

Json to_json(const DashboardInstance& instance) {
  Json time;
  if (const auto& shares = instance.time) {
    time = {{"data", shares->data},
            {"compute", shares->compute},
            {"reduce", shares->reduce},
            {"idle", shares->idle}};
  }
  Json replicas = Json::array();
  for (const auto& replica : instance.replicas) {
    replicas.push_back({{"index", replica.index}, {"stages", replica.stage_devices}});
  }
  return {{"host", instance.host},
          {"index", instance.index},
          {"alive", instance.is_alive},
          {"phase", instance.phase},
          {"pid", or_null(instance.process)},
          {"step", or_null(instance.step)},
          {"samples_per_second", or_null(instance.samples_per_second)},
          {"memory_mib", or_null(instance.memory_mib)},
          {"cpu_percent", or_null(instance.cpu_percent)},
          {"time", std::move(time)},
          {"replicas", std::move(replicas)}};
}

Json to_json(const events::LogEntry& entry) {
  Json json{{"event", entry.event}};
  if (entry.instance) json["instance"] = *entry.instance;
  if (entry.step) json["step"] = *entry.step;
  for (const auto& [name, value] : entry.more) {
    std::visit([&, &key = name](const auto& known) { json[key] = known; }, value);
  }
  return json;
}

Json to_json(const DashboardJob& job) {
  Json end;
  if (job.end) end = {{"exit_code", or_null(job.end->exit_code)}, {"text", job.end->text}};
  Json instances = Json::array();
  for (const auto& instance : job.instances) instances.push_back(to_json(instance));
  Json json{{"id", job.id},
            {"name", job.name},
            {"user", job.user},
            {"state", job.end ? "ended" : "running"},
            {"end", std::move(end)},
            {"epoch", or_null(job.epoch)},
            {"step", or_null(job.step)},
            {"loss", or_null(job.loss)},
            {"accuracy", or_null(job.accuracy)},
            {"samples_per_second", or_null(job.samples_per_second)},
            {"restarts", or_null(job.restarts)},
            {"bottleneck", job.bottleneck},
            {"slowest", or_null(job.slowest)},
            {"instances", std::move(instances)}};
  tidy(json);
  // Events are shown as the log has them.
  auto& events = json["events"] = Json::array();
  for (const auto& entry : job.events) events.push_back(to_json(entry));
  return json;
}

std::string curve_row(const DashboardJob& job) {
  auto row = Json::array(
      {*job.step, or_null(job.loss), or_null(job.accuracy), or_null(job.samples_per_second)});
  tidy(row);
  return to_text(row);
}

std::string share_row(const DashboardJob& job) {
  Json instances = Json::object();
  for (const auto& instance : job.instances) {
    if (instances.size() == kMostInstancesWithCurves) break;
    if (!instance.time) continue;
    auto& row = instances[std::to_string(instance.index)];
    const auto& time = *instance.time;
    for (const double share : {time.data, time.compute, time.reduce, time.idle}) {
      row.push_back(std::lround(100 * std::clamp(share, 0.0, 1.0)));
    }
  }
  return to_text(Json::array({*job.step, std::move(instances)}));
}

}  // namespace

void CurveHistory::add(std::int64_t step, std::string row) {
  while (!rows_.empty() && rows_.back().first > step) {
    rows_.pop_back();
    is_last_kept_ = true;
  }
  if (!rows_.empty() && rows_.back().first == step) {
    rows_.back().second = std::move(row);
    return;
  }
  if (!is_last_kept_) rows_.pop_back();
  if (rows_.size() >= most_rows_) {
    for (std::size_t i = 1; 2 * i < rows_.size(); ++i) rows_[i] = std::move(rows_[2 * i]);
    rows_.resize((rows_.size() + 1) / 2);
    kept_every_ *= 2;
  }
  rows_.emplace_back(step, std::move(row));
  is_last_kept_ = added_++ % kept_every_ == 0 || rows_.size() == 1;
}

std::string CurveHistory::text() const {
  std::string text;
  for (const auto& [step, row] : rows_) text += (text.empty() ? "" : ",") + row;
  return "[" + text + "]";
}

std::string DashboardState::jobs_text() {
  auto jobs = feed_.jobs();
  if (jobs.size() > kMostJobs) jobs.resize(kMostJobs);
  std::string text;
  std::set<std::pair<std::string, std::string>> present;
  for (const auto& job : jobs) {
    const auto key = *present.emplace(job.user, job.id).first;
    auto& known = known_[key];
    if (!job.end && job.step) {
      known.curve.add(*job.step, curve_row(job));
      known.shares.add(*job.step, share_row(job));
    }
    // A job that has ended does not change any more.
    if (!job.end || !known.has_ended) {
      known.text = to_text(to_json(job));
      known.text.pop_back();
      known.text += fmt::format(R"(,"curves":{},"share_curves":{}}})", known.curve.text(),
                                known.shares.text());
    }
    known.has_ended = job.end.has_value();
    text += (text.empty() ? "" : ",") + known.text;
  }
  std::erase_if(known_, [&](const auto& entry) { return !present.contains(entry.first); });
  if (text.size() > kMostBytes) {
    throw Error(ErrorKind::Data,
                fmt::format("dashboard: expected at most {} bytes to show, found {}", kMostBytes,
                            text.size()));
  }
  return text;
}

std::string DashboardState::refresh() {
  Json problem;
  try {
    last_jobs_ = jobs_text();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return fmt::format(R"({{"jobs":[{}],"problem":{}}})", last_jobs_, to_text(problem));
}

}  // namespace lockstep::monitor
