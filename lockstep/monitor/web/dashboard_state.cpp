#include "lockstep/monitor/web/dashboard_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostJobs = 64;
constexpr std::size_t kMostInstancesWithCurves = 64;

constexpr std::pair<const char*, double TimeShares::*> kShares[] = {
    {"data", &TimeShares::data},
    {"compute", &TimeShares::compute},
    {"reduce", &TimeShares::reduce},
    {"idle", &TimeShares::idle}};

/// The number with six significant digits. Numbers that are too large or too small for exact powers
/// of ten are not rounded; measured values never are.
double round_to_six_digits(double value) {
  constexpr int kDigits = 6;
  constexpr int kMostExactPower = 22;  // 10^22 is the largest power of ten that is exact
  if (value == 0) return value;
  const auto shift = kDigits - 1 - static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (std::abs(shift) > kMostExactPower) return value;
  // A division by a power of ten gives the same bits as the decimal number, and so its short text.
  const auto scale = std::pow(10.0, std::abs(shift));
  return shift > 0 ? std::round(value * scale) / scale : std::round(value / scale) * scale;
}

/// A number with six digits; null for NaN and infinity, which JSON does not have.
Json to_json(double value) {
  if (!std::isfinite(value)) return nullptr;
  return round_to_six_digits(value);
}

template <typename Value>
void set(Json& object, const char* name, const std::optional<Value>& value) {
  if (!value) return;
  if constexpr (std::is_same_v<Value, double>) {
    if (std::isfinite(*value)) object[name] = to_json(*value);
  } else {
    object[name] = *value;
  }
}

Json to_json(const DashboardReplica& replica) {
  Json stages = Json::array();
  for (const auto& device : replica.stage_devices) {
    stages.push_back({{"index", stages.size()}});
    if (!device.empty()) stages.back()["device"] = device;
  }
  return {{"index", replica.index}, {"stages", std::move(stages)}};
}

Json to_json(const DashboardInstance& instance) {
  Json object{{"index", instance.index}, {"alive", instance.is_alive}, {"phase", instance.phase}};
  set(object, "pid", instance.process);
  set(object, "step", instance.step);
  set(object, "samples_per_second", instance.samples_per_second);
  set(object, "memory_mib", instance.memory_mib);
  set(object, "cpu_percent", instance.cpu_percent);
  if (instance.time) {
    for (const auto& [name, share] : kShares) {
      object["time"][name] = to_json((*instance.time).*share);
    }
  }
  object["replicas"] = Json::array();
  for (const auto& replica : instance.replicas) object["replicas"].push_back(to_json(replica));
  return object;
}

/// Groups neighbouring instances of the same host.
Json hosts_json(const std::vector<DashboardInstance>& instances) {
  Json hosts = Json::array();
  for (const auto& instance : instances) {
    if (hosts.empty() || hosts.back()["name"] != instance.host) {
      hosts.push_back({{"name", instance.host}, {"instances", Json::array()}});
    }
    hosts.back()["instances"].push_back(to_json(instance));
  }
  return hosts;
}

Json to_json(const events::LogEntry& entry) {
  Json object{{"event", entry.event}};
  set(object, "instance", entry.instance);
  set(object, "step", entry.step);
  for (const auto& [name, value] : entry.more) {
    std::visit([&, &key = name](const auto& known) { object[key] = known; }, value);
  }
  return object;
}

template <typename Point, typename Value>
Json line(const CurveHistory<Point>& history, const Value& value) {
  Json values = Json::array();
  for (const auto& point : history.points()) values.push_back(value(point));
  return values;
}

Json to_json(const CurveHistory<CurvePoint>& history) {
  return {{"step", line(history, [](const auto& point) { return point.step; })},
          {"loss", line(history, [](const auto& point) { return to_json(point.loss); })},
          {"accuracy", line(history, [](const auto& point) { return to_json(point.accuracy); })},
          {"samples_per_second",
           line(history, [](const auto& point) { return to_json(point.samples_per_second); })}};
}

/// Four lines in percent for each instance, with null where an instance is missing from a point.
Json to_json(const CurveHistory<SharePoint>& history) {
  std::set<int> known;
  for (const auto& point : history.points()) {
    for (const auto& [index, shares] : point.instances) known.insert(index);
  }
  Json instances = Json::object();
  for (const int index : known) {
    if (instances.size() == kMostInstancesWithCurves) break;
    auto& lines = instances[std::to_string(index)];
    for (const auto& [name, share] : kShares) {
      lines[name] = line(history, [&, share = share](const SharePoint& point) {
        const auto found = point.instances.find(index);
        if (found == point.instances.end()) return Json();
        return Json(std::lround(100 * std::clamp(found->second.*share, 0.0, 1.0)));
      });
    }
  }
  return {{"step", line(history, [](const auto& point) { return point.step; })},
          {"instances", std::move(instances)}};
}

SharePoint share_point(const DashboardJob& job) {
  SharePoint point{.step = *job.step};
  for (const auto& instance : job.instances) {
    if (point.instances.size() == kMostInstancesWithCurves) break;
    if (instance.time) point.instances[instance.index] = *instance.time;
  }
  return point;
}

Json to_json(const DashboardJob& job) {
  Json object{{"id", job.id}, {"name", job.name}, {"user", job.user}};
  object["state"] = job.end ? "ended" : "running";
  if (job.end) {
    object["end"]["text"] = job.end->text;
    set(object["end"], "exit_code", job.end->exit_code);
  }
  set(object, "epoch", job.epoch);
  set(object, "step", job.step);
  set(object, "loss", job.loss);
  set(object, "accuracy", job.accuracy);
  set(object, "samples_per_second", job.samples_per_second);
  set(object, "restarts", job.restarts);
  set(object, "slowest", job.slowest);
  if (!job.bottleneck.empty()) object["bottleneck"] = job.bottleneck;
  object["hosts"] = hosts_json(job.instances);
  object["events"] = Json::array();
  for (const auto& entry : job.events) object["events"].push_back(to_json(entry));
  return object;
}

}  // namespace

DashboardState::DashboardState(JobFeed& feed)
    : feed_(feed), text_(std::make_shared<const std::string>(R"({"jobs":[]})")) {}

std::string DashboardState::job_text(const DashboardJob& job, KnownJob& known) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  if (job.step && !job.end) {
    known.curve.add({.step = *job.step,
                     .loss = job.loss.value_or(kUnknown),
                     .accuracy = job.accuracy.value_or(kUnknown),
                     .samples_per_second = job.samples_per_second.value_or(kUnknown)});
    known.shares.add(share_point(job));
  }
  auto object = to_json(job);
  object["curves"] = to_json(known.curve);
  object["share_curves"] = to_json(known.shares);
  return object.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string DashboardState::jobs_text() {
  auto jobs = feed_.jobs();
  if (jobs.size() > kMostJobs) jobs.resize(kMostJobs);
  std::set<JobKey> present;
  std::string text;
  for (const auto& job : jobs) {
    const auto key = *present.emplace(job.user, job.id).first;
    auto& known = known_[key];
    // A job that has ended does not change any more.
    if (!job.end || !known.has_ended) known.text = job_text(job, known);
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

void DashboardState::refresh() {
  std::string text;
  try {
    last_jobs_ = jobs_text();
    text = fmt::format(R"({{"jobs":[{}]}})", last_jobs_);
  } catch (const std::exception& error) {
    const auto problem = Json(error.what()).dump(-1, ' ', false, Json::error_handler_t::replace);
    text = fmt::format(R"({{"jobs":[{}],"problem":{}}})", last_jobs_, problem);
  }
  if (text == *text_) return;
  text_ = std::make_shared<const std::string>(std::move(text));
  ++version_;
}

}  // namespace lockstep::monitor
