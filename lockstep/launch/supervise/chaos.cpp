#include "lockstep/launch/supervise/chaos.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/philox.h"
#include "lockstep/base/strings.h"

namespace lockstep::launch {
namespace {

constexpr events::Seconds kShortestSlowness{0.1};
constexpr events::Seconds kLongestSlowness{2};
constexpr double kLongestMtbf = 1e7;

constexpr std::array kAllKinds{FaultKind::Kill, FaultKind::Stop, FaultKind::Slow};

Error wrong(std::string_view text, const std::string& expected) {
  return {ErrorKind::Options, fmt::format("run: --chaos is '{}', expected {}", text, expected),
          "--chaos 7,mtbf=10,kinds=kill,stop,slow"};
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::optional<FaultKind> parse_kind(std::string_view name) {
  const auto* found = std::ranges::find(kAllKinds, name, [](auto kind) { return name_of(kind); });
  return found == kAllKinds.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::string_view name_of(FaultKind kind) noexcept {
  switch (kind) {
    case FaultKind::Kill:
      return "kill";
    case FaultKind::Stop:
      return "stop";
    case FaultKind::Slow:
      return "slow";
  }
  return "?";
}

bool ChaosOptions::has(FaultKind kind) const noexcept {
  return std::ranges::find(kinds, kind) != kinds.end();
}

/// Kinds are separated as the parts are: what has no '=' behind `kinds=` is one more of them.
ChaosOptions parse_chaos(std::string_view text) {
  constexpr std::string_view kMtbf = "mtbf=";
  constexpr std::string_view kKinds = "kinds=";
  ChaosOptions options;
  const auto parts = split(text, ',');
  const auto seed = parse_number<std::uint64_t>(parts.front());
  if (!seed) throw wrong(text, "a seed first, a whole number of at least 0");
  options.seed = *seed;

  const auto add_kind = [&](std::string_view name) {
    const auto kind = parse_kind(name);
    if (!kind) throw wrong(text, "kinds of kill, stop and slow");
    if (options.has(*kind)) throw wrong(text, "each kind once");
    options.kinds.push_back(*kind);
  };
  bool in_kinds = false;
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    if (part->starts_with(kMtbf)) {
      in_kinds = false;
      const auto seconds = parse_number<double>(part->substr(kMtbf.size()));
      if (!seconds || !(*seconds > 0) || *seconds > kLongestMtbf) {
        throw wrong(text, "mtbf=SECONDS with more than 0");
      }
      options.mtbf = events::Seconds(*seconds);
    } else if (part->starts_with(kKinds)) {
      in_kinds = true;
      options.kinds.clear();
      add_kind(part->substr(kKinds.size()));
    } else if (in_kinds) {
      add_kind(*part);
    } else {
      throw wrong(text, "SEED[,mtbf=SECONDS][,kinds=kill,stop,slow]");
    }
  }
  return options;
}

int Fault::choose(int count) const noexcept {
  return static_cast<int>(below(static_cast<std::uint32_t>(count), choice));
}

Fault fault_of(const ChaosOptions& options, std::uint32_t index) {
  const auto words = philox(options.seed, {index, 0, 0, 0});
  Fault fault;
  fault.gap = -std::log1p(-static_cast<double>(unit_float(words[0]))) * options.mtbf;
  fault.kind = options.kinds[below(static_cast<std::uint32_t>(options.kinds.size()), words[1])];
  fault.choice = words[2];
  if (fault.kind == FaultKind::Slow) {
    fault.duration = kShortestSlowness + static_cast<double>(unit_float(words[3])) *
                                             (kLongestSlowness - kShortestSlowness);
  }
  return fault;
}

}  // namespace lockstep::launch
