#include "bench/train/runs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::bench {
namespace {

/// Parses a text and passes it to `read`. If one of them fails, the message contains the text.
template <typename Read>
auto read_json(const std::string& where, const std::string& text, const Read& read) {
  try {
    return read(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::Io, fmt::format("{}: expected results as JSON, found '{}': {}", where,
                                           trim(text), error.what()));
  }
}

/// "bench train: torch".
std::string where(const std::string& system, const TrainStart& start) {
  return fmt::format("{}: {}", start.bench, system);
}

void check_steps(const std::string& system, std::int64_t steps, const TrainStart& start) {
  if (steps == start.steps) return;
  throw Error(ErrorKind::Io, fmt::format("{}: expected {} steps, found {}", where(system, start),
                                         start.steps, steps));
}

/// Refuses the times of a system that does not learn.
void check_learned(const std::string& system, const TrainRun& run, const TrainStart& start) {
  if (start.classes == 0) return;
  const auto guessing = std::log(static_cast<double>(start.classes));
  if (run.train_loss < guessing) return;
  throw Error(ErrorKind::Io,
              fmt::format("{}: expected a mean loss below {:.2f}, which guessing "
                          "among {} classes has, found {:.2f}",
                          where(system, start), guessing, start.classes, run.train_loss));
}

TrainRun make_run(const std::string& system, const nlohmann::json& json, double data_share,
                  const TrainStart& start) {
  const double first = json.at("first_step_unix_s");
  const double last = json.at("last_step_unix_s");
  if (first <= start.unix_s || last <= first) {
    throw Error(ErrorKind::Io,
                fmt::format("{}: expected a first step after the start at {:.3f} and "
                            "before the last step at {:.3f}, found one at {:.3f}",
                            where(system, start), start.unix_s, last, first));
  }
  return {.to_first_step = Seconds(first - start.unix_s),
          .per_step = Seconds(last - first) / static_cast<double>(start.steps - 1),
          .data_share = data_share,
          .train_loss = json.at("train_loss")};
}

}  // namespace

double unix_now() {
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

TrainRun read_lockstep_run(const std::string& system, const std::string& json,
                           const TrainStart& start) {
  const auto run = read_json(where(system, start), json, [&](const nlohmann::json& summary) {
    check_steps(system, summary.at("optimizer_steps"), start);
    const auto& time = summary.at("time");
    auto made = make_run(system, summary, time.at("data"), start);
    made.idle_share = time.at("idle");
    made.weights = summary.at("weights");
    return made;
  });
  check_learned(system, run, start);
  return run;
}

TrainRun read_torch_run(const std::string& system, const std::string& json,
                        const TrainStart& start) {
  const auto run = read_json(where(system, start), json, [&](const nlohmann::json& result) {
    check_steps(system, result.at("steps"), start);
    return make_run(system, result, result.at("data_share"), start);
  });
  check_learned(system, run, start);
  return run;
}

std::vector<Seconds> read_update_times(const std::string& system, const std::string& json) {
  return read_json("bench train: " + system, json, [](const nlohmann::json& result) {
    std::vector<Seconds> times;
    for (const double seconds : result.at("seconds")) times.emplace_back(seconds);
    return times;
  });
}

}  // namespace lockstep::bench
