#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::weights {

struct LossDifference {
  std::size_t replica = 0;
  float a = 0;
  float b = 0;
};

struct DigestDifference {
  std::string tensor;
  std::string a;  ///< empty where the run has no such tensor
  std::string b;
};

/// In what two runs differ after the same step.
struct StepDifference {
  std::int64_t step = 0;
  std::pair<std::size_t, std::size_t> numbers_of_losses;
  std::vector<LossDifference> losses;  ///< of the replicas that both have
  std::vector<DigestDifference> tensors;
};

struct LogComparison {
  /// What the headers say differently: a key and both values, empty where one has none.
  std::map<std::string, std::pair<std::string, std::string>> facts;
  std::int64_t equal_steps = 0;
  std::optional<std::int64_t> last_equal;  ///< of the steps before the first that differs
  std::optional<StepDifference> first_difference;
  bool has_steps_of_one_only = false;  ///< that one log recorded and the other did not
};

/// Walks two digest logs up to the first step that both recorded and whose losses or digests
/// differ. Losses are compared by their bits: -0 is not 0, and a NaN is itself; where one run has
/// none, digests decide.
///
/// Errors: those of `DigestLogReader`; `Data` where no step is in both.
LogComparison compare_logs(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace lockstep::weights
