#include "lockstep/checkpoint/pruning.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

Candidate candidate_at(const std::filesystem::path& path, const std::string& metric) {
  Candidate candidate{.path = path};
  try {
    const auto manifest = read_manifest(path);
    candidate.is_whole = true;
    const auto found = manifest.metrics.find(metric);
    if (found != manifest.metrics.end() && !std::isnan(found->second)) {
      candidate.metric = found->second;
    }
  } catch (const Error&) {  // then it is not whole
  }
  return candidate;
}

/// The newest of the best.
const Candidate* best_of(const std::vector<Candidate>& candidates) {
  const Candidate* best = nullptr;
  for (const auto& candidate : candidates) {
    if (candidate.metric && (best == nullptr || *candidate.metric >= *best->metric)) {
      best = &candidate;
    }
  }
  return best;
}

}  // namespace

std::vector<Candidate> candidates_in(const std::filesystem::path& folder,
                                     const std::string& metric) {
  std::vector<Candidate> candidates;
  for (const auto& path : list_checkpoints(folder))
    candidates.push_back(candidate_at(path, metric));
  return candidates;
}

std::optional<double> best_metric(const std::filesystem::path& folder, const std::string& metric) {
  const auto candidates = candidates_in(folder, metric);
  const auto* const best = best_of(candidates);
  return best != nullptr ? best->metric : std::nullopt;
}

std::vector<std::filesystem::path> superfluous(const std::vector<Candidate>& candidates,
                                               const std::filesystem::path& written,
                                               const Keeping& keeping) {
  std::vector<std::filesystem::path> result;
  const auto* const best = keeping.best_metric.empty() ? nullptr : best_of(candidates);
  int kept = 1;  // the one that was written
  bool is_before = false;
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    if (is_before) {
      const bool is_last = candidate->is_whole && kept++ < keeping.last;
      if (!is_last && &*candidate != best) result.push_back(candidate->path);
    }
    is_before = is_before || candidate->path == written;
  }
  return result;
}

}  // namespace lockstep::checkpoint
