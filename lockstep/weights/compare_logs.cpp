#include "lockstep/weights/compare_logs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "lockstep/base/error.h"
#include "lockstep/weights/digest_log.h"

namespace lockstep::weights {
namespace {

using Facts = std::map<std::string, std::string>;

Facts facts_of(const DigestLogHeader& header) {
  auto facts = header.facts;
  facts["replicas"] = std::to_string(header.replicas);
  facts["threads_per_device"] = std::to_string(header.threads_per_device);
  return facts;
}

/// The keys whose values are not the same in both, with those values.
std::map<std::string, std::pair<std::string, std::string>> differing(const Facts& a,
                                                                     const Facts& b) {
  std::map<std::string, std::pair<std::string, std::string>> pairs;
  for (const auto& [key, value] : a) pairs[key].first = value;
  for (const auto& [key, value] : b) pairs[key].second = value;
  std::erase_if(pairs, [](const auto& pair) { return pair.second.first == pair.second.second; });
  return pairs;
}

std::vector<LossDifference> differing(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<LossDifference> found;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const bool is_equal = std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]);
    if (!is_equal) found.push_back({i, a[i], b[i]});
  }
  return found;
}

/// Where one run has lost them in a crash, there is nothing to compare.
bool have_as_many(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() || a.empty() || b.empty();
}

std::optional<StepDifference> compare(const DigestStep& a, const DigestStep& b) {
  StepDifference found{
      a.step, {a.losses.size(), b.losses.size()}, differing(a.losses, b.losses), {}};
  for (auto& [tensor, digests] : differing(a.tensors, b.tensors)) {
    found.tensors.push_back({tensor, digests.first, digests.second});
  }
  const bool is_equal =
      have_as_many(a.losses, b.losses) && found.losses.empty() && found.tensors.empty();
  return is_equal ? std::nullopt : std::optional(std::move(found));
}

/// A log and where its reading stands.
struct Walk {
  explicit Walk(const std::filesystem::path& path) : reader(path) { advance(); }

  void advance() {
    current = reader.next();
    if (current) steps.push_back(current->step);
  }

  DigestLogReader reader;
  std::optional<DigestStep> current;
  std::vector<std::int64_t> steps;  ///< all that were read
};

/// "the steps 20, 40, 60"
std::string describe(const std::vector<std::int64_t>& steps) {
  constexpr std::size_t kMostListed = 8;
  if (steps.empty()) return "no steps";
  if (steps.size() <= kMostListed) return fmt::format("the steps {}", fmt::join(steps, ", "));
  return fmt::format("{} steps, {}, {}, … {}", steps.size(), steps[0], steps[1], steps.back());
}

[[noreturn]] void refuse_strangers(const Walk& a, const Walk& b) {
  throw Error(ErrorKind::Data,
              fmt::format("diff: expected a step that both logs recorded, found {} in {} and {} in "
                          "{}",
                          describe(a.steps), a.reader.path(), describe(b.steps), b.reader.path()),
              "record both runs with the same --digest-every");
}

}  // namespace

LogComparison compare_logs(const std::filesystem::path& path_a,
                           const std::filesystem::path& path_b) {
  Walk a(path_a);
  Walk b(path_b);
  LogComparison result;
  result.facts = differing(facts_of(a.reader.header()), facts_of(b.reader.header()));
  while (a.current || b.current) {
    const bool is_in_both = a.current && b.current && a.current->step == b.current->step;
    if (is_in_both) {
      result.first_difference = compare(*a.current, *b.current);
      if (result.first_difference) return result;
      ++result.equal_steps;
      result.last_equal = a.current->step;
    } else {
      result.has_steps_of_one_only = true;
    }
    const bool a_is_behind = a.current && (!b.current || a.current->step < b.current->step);
    if (is_in_both || a_is_behind) a.advance();
    if (is_in_both || !a_is_behind) b.advance();
  }
  if (result.equal_steps == 0) refuse_strangers(a, b);
  return result;
}

}  // namespace lockstep::weights
