#include "lockstep/cli/train_summary_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "lockstep/monitor/status/bottleneck.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> test_accuracy(const train::TrainSummary& summary) {
  const auto found = std::ranges::find(summary.test_metrics, "acc", &events::NamedValue::name);
  if (found == summary.test_metrics.end()) return std::nullopt;
  return found->value;
}

using Facts = std::vector<monitor::ReportFact>;

void add_test(const train::TrainSummary& summary, Facts& to) {
  if (const auto accuracy = test_accuracy(summary)) {
    to.push_back({"test accuracy", fmt::format("{:.2f} %", *accuracy)});
  }
  if (summary.test_loss) to.push_back({"test loss", fmt::format("{:.4f}", *summary.test_loss)});
}

std::string shares_text(const train::TimeShares& time) {
  return fmt::format(
      "{:.1f} % waiting for data, {:.1f} % compute, {:.1f} % reduction, {:.1f} % idle",
      100 * time.data, 100 * time.compute, 100 * time.reduce, 100 * time.idle);
}

/// The speed, if this run made any step.
void add_speed(const train::TrainSummary& summary, Facts& to) {
  if (summary.optimizer_steps == summary.resumed_at) return;
  to.push_back({"samples/s", fmt::format("{:.1f}", summary.samples_per_second)});
  to.push_back({"time", shares_text(summary.time)});
  if (auto text = bottleneck_of(summary); !text.empty()) to.push_back({"bottleneck", text});
}

std::string memory_text(const train::TrainSummary& summary) {
  const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; };
  return fmt::format(
      "weights {:.1f} MiB and optimizer {:.1f} MiB, once for the host; {:.1f} MiB shared in all, "
      "{:.1f} MiB for an instance",
      mib(summary.memory.weights), mib(summary.memory.optimizer), mib(summary.memory.shared),
      mib(summary.private_bytes));
}

void add_checkpoints(const train::TrainSummary& summary, Facts& to) {
  const auto& [taken, blocked, writer] = summary.checkpoints;
  if (taken == 0) return;
  to.push_back({"checkpoints",
                fmt::format("{}: training waited {:.3f} s for them, writing took {:.3f} s of a CPU",
                            taken, blocked, writer)});
}

void add_first_step(const train::TrainSummary& summary, Facts& to) {
  if (summary.optimizer_steps == summary.resumed_at) return;
  to.push_back({"first step", fmt::format("after {:.2f} s", summary.time_to_first_step_s)});
}

Json to_object(const std::vector<events::NamedValue>& metrics) {
  auto object = Json::object();
  for (const auto& metric : metrics) object[metric.name] = metric.value;
  return object;
}

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

void add_outcome(const train::TrainSummary& summary, Json& to) {
  to["samples_per_second"] = summary.samples_per_second;
  to["test_accuracy"] = number_or_null(test_accuracy(summary));
  to["test_loss"] = number_or_null(summary.test_loss);
  to["test_metrics"] = to_object(summary.test_metrics);
  to["train_loss"] = summary.train_loss;
  to["train_metrics"] = to_object(summary.train_metrics);
  to["weights"] = summary.weights;
}

void add_times(const train::TrainSummary& summary, Json& to) {
  to["time_to_first_step_s"] = summary.time_to_first_step_s;
  to["first_step_unix_s"] = summary.first_step_unix_s;
  to["last_step_unix_s"] = summary.last_step_unix_s;
  to["train_seconds"] = summary.train_seconds;
  to["time"] = {{"data", summary.time.data},
                {"compute", summary.time.compute},
                {"reduce", summary.time.reduce},
                {"idle", summary.time.idle}};
  to["bottleneck"] = bottleneck_of(summary);
}

void add_stages(const train::TrainSummary& summary, Json& to) {
  to["stages"] = Json::array();
  for (const auto& [forward, backward] : summary.stages) {
    to["stages"].push_back({{"forward_s", forward}, {"backward_s", backward}});
  }
}

void add_memory(const train::TrainSummary& summary, Json& to) {
  to["memory"] = {{"weights_bytes", summary.memory.weights},
                  {"optimizer_bytes", summary.memory.optimizer},
                  {"shared_bytes", summary.memory.shared},
                  {"private_bytes", summary.private_bytes}};
}

void add_checkpoints(const train::TrainSummary& summary, Json& to) {
  to["checkpoints"] = {{"taken", summary.checkpoints.taken},
                       {"blocked_s", summary.checkpoints.blocked_seconds},
                       {"writer_cpu_s", summary.checkpoints.writer_seconds}};
}

void add_request(const train::TrainSummary& summary, Json& to) {
  to["model"] = summary.model;
  to["dataset"] = summary.dataset;
  to["replicas"] = summary.replicas;
  to["instances"] = summary.instances;
  to["threads_per_device"] = summary.threads_per_device;
  to["batch_size"] = summary.batch_size;
  to["gradient_accumulation"] = summary.gradient_accumulation;
  to["device_iterations"] = summary.device_iterations;
  to["epochs"] = summary.epochs;
  to["optimizer_steps"] = summary.optimizer_steps;
  to["samples"] = summary.samples;
  to["resumed_at_step"] = summary.resumed_at;
  to["precision"] = summary.precision;
  to["seed"] = summary.seed;
}

}  // namespace

std::string bottleneck_of(const train::TrainSummary& summary) {
  std::vector<monitor::InstanceTimes> times;
  for (std::size_t i = 0; i < summary.seconds.size(); ++i) {
    times.push_back({static_cast<int>(i), summary.seconds[i]});
  }
  const auto found =
      monitor::find_bottleneck(times, {.hosts = summary.hosts,
                                       .workers = summary.loader_workers,
                                       .gradient_accumulation = summary.gradient_accumulation});
  return found ? found->text : std::string();
}

std::vector<monitor::ReportFact> facts_of(const train::TrainSummary& summary) {
  std::vector<monitor::ReportFact> facts;
  add_test(summary, facts);
  add_speed(summary, facts);
  facts.push_back({"memory", memory_text(summary)});
  add_checkpoints(summary, facts);
  add_first_step(summary, facts);
  return facts;
}

std::string to_text(const train::TrainSummary& summary) {
  std::string text;
  for (const auto& [name, value] : facts_of(summary))
    text += fmt::format("{:<15}{}\n", name, value);
  return text + fmt::format("weights: {}  (R={} T={})\n", summary.weights, summary.replicas,
                            summary.threads_per_device);
}

std::string to_json(const train::TrainSummary& summary) {
  Json json;
  add_outcome(summary, json);
  add_times(summary, json);
  add_stages(summary, json);
  add_memory(summary, json);
  add_checkpoints(summary, json);
  add_request(summary, json);
  // A path may hold any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::cli
