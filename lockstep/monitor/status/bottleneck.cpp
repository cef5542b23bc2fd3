#include "lockstep/monitor/status/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lockstep::monitor {
namespace {

/// Shares below this are not worth a word.
constexpr double kMatters = 0.1;
constexpr int kMostWorkers = 64;

/// Of the time of an instance: together 1.
struct Shares {
  int instance = 0;
  double data = 0;
  double compute = 0;
  double reduce = 0;
  double idle = 0;

  /// What the instance does for itself, while others may wait for it.
  double busy() const noexcept { return data + compute; }
};

std::vector<Shares> shares_of(std::span<const InstanceTimes> instances) {
  std::vector<Shares> shares;
  for (const auto& [instance, seconds] : instances) {
    const auto all = seconds.data + seconds.compute + seconds.reduce + seconds.idle;
    if (!(all > 0)) continue;
    shares.push_back({.instance = instance,
                      .data = seconds.data / all,
                      .compute = seconds.compute / all,
                      .reduce = seconds.reduce / all,
                      .idle = seconds.idle / all});
  }
  return shares;
}

double mean(const std::vector<Shares>& shares, double Shares::*part) {
  double sum = 0;
  for (const auto& share : shares) sum += share.*part;
  return sum / static_cast<double>(shares.size());
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

std::string more_workers(const BottleneckFacts& facts) {
  if (!facts.workers) return "more --num-workers";
  if (*facts.workers >= kMostWorkers) return "--eight-bit-io, or a faster disk";
  return fmt::format("--num-workers {}", std::max(2, 2 * *facts.workers));
}

/// Twice as much work for as many exchanges.
std::string fewer_exchanges(const BottleneckFacts& facts) {
  if (!facts.gradient_accumulation) return "a larger --gradient-accumulation";
  return fmt::format("--gradient-accumulation {}", 2 * *facts.gradient_accumulation);
}

/// One instance is busy for a larger share of its time than the others are, who wait for it.
std::optional<Bottleneck> find_slowest(const std::vector<Shares>& shares,
                                       const BottleneckFacts& facts) {
  if (shares.size() < 2) return std::nullopt;
  const auto slowest = std::ranges::max_element(shares, {}, &Shares::busy);
  auto others = shares;
  others.erase(others.begin() + (slowest - shares.begin()));
  const auto more_data = slowest->data - mean(others, &Shares::data);
  const auto more_compute = slowest->compute - mean(others, &Shares::compute);
  const auto waited = more_data + more_compute;
  if (waited < kMatters) return std::nullopt;
  if (more_data > more_compute) {
    return Bottleneck{
        .kind = Bottleneck::Kind::Input,
        .share = slowest->data,
        .slowest = slowest->instance,
        .text = fmt::format("input-bound: instance {} waited {} of the time for "
                            "data, and the others for it; try {}",
                            slowest->instance, percent(slowest->data), more_workers(facts))};
  }
  return Bottleneck{.kind = Bottleneck::Kind::Uneven,
                    .share = waited,
                    .slowest = slowest->instance,
                    .text = fmt::format(
                        "uneven: the others waited {} of the time for instance {}, which computes "
                        "longest; try --bind core, or look what else runs on its cores",
                        percent(waited), slowest->instance)};
}

Bottleneck input(double share, const BottleneckFacts& facts) {
  return {.kind = Bottleneck::Kind::Input,
          .share = share,
          .slowest = {},
          .text = fmt::format("input-bound: replicas waited {} of the time for data; try {}",
                              percent(share), more_workers(facts))};
}

Bottleneck reduction(double share, const BottleneckFacts& facts) {
  if (facts.hosts > 1) {
    return {
        .kind = Bottleneck::Kind::Network,
        .share = share,
        .slowest = {},
        .text = fmt::format("network-bound: gradients between hosts took {} of the time; try {}",
                            percent(share), fewer_exchanges(facts))};
  }
  return {
      .kind = Bottleneck::Kind::Reduce,
      .share = share,
      .slowest = {},
      .text = fmt::format("reduction-bound: combining gradients and updating weights took {} of "
                          "the time; try {}",
                          percent(share), fewer_exchanges(facts))};
}

Bottleneck idle(double share, std::size_t instances) {
  return {
      .kind = Bottleneck::Kind::Idle,
      .share = share,
      .slowest = {},
      .text = instances > 1
                  ? fmt::format(
                        "idle: instances waited {} of the time for each other; try "
                        "fewer instances, or bind each instance to its own cores with --bind core",
                        percent(share))
                  : fmt::format("idle: devices waited {} of the time for each other; try a "
                                "larger --gradient-accumulation",
                                percent(share))};
}

}  // namespace

std::optional<Bottleneck> find_bottleneck(std::span<const InstanceTimes> instances,
                                          const BottleneckFacts& facts) {
  const auto shares = shares_of(instances);
  if (shares.empty()) return std::nullopt;
  if (auto slowest = find_slowest(shares, facts)) return slowest;
  const auto waiting = mean(shares, &Shares::data);
  const auto reducing = mean(shares, &Shares::reduce);
  const auto idling = mean(shares, &Shares::idle);
  const auto most = std::max({waiting, reducing, idling});
  if (most < kMatters) {
    const auto computing = mean(shares, &Shares::compute);
    return Bottleneck{
        .kind = Bottleneck::Kind::Compute,
        .share = computing,
        .slowest = {},
        .text = fmt::format("compute-bound: replicas computed {} of the time", percent(computing))};
  }
  if (most == waiting) return input(waiting, facts);
  if (most == reducing) return reduction(reducing, facts);
  return idle(idling, shares.size());
}

}  // namespace lockstep::monitor
