#include "lockstep/plan/stage_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::plan {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

std::size_t size(int number) {
  return static_cast<std::size_t>(number);
}

int num_blocks(const ModelProfile& profile) {
  return static_cast<int>(profile.blocks.size());
}

/// Finds the least maximum over contiguous stages, by dynamic programming: the best that k stages
/// can do with the blocks from i on follows from what k - 1 can do from every later block on.
///
/// A stage's weight is the sum of its blocks' from first to last, also here: then what is optimal
/// does not depend on how sums are rounded.
class EvenSplit {
 public:
  EvenSplit(std::vector<double> weights, std::vector<bool> may_begin)
      : weights_(std::move(weights)),
        may_begin_(std::move(may_begin)),
        best_{std::vector<double>(weights_.size() + 1, kImpossible)} {
    best_[0].back() = 0;  // no stages are left, and no blocks
  }

  StageSplit into(int stages) {
    while (std::cmp_less_equal(best_.size(), stages)) best_.push_back(with_one_more());
    const double slowest = best_[size(stages)][0];
    StageSplit split{0};
    for (int left = stages - 1; left > 0; --left) {
      split.push_back(next_beginning(split.back(), left, slowest));
    }
    return split;
  }

 private:
  /// Calls `visit(end, weight)` for each stage that begins here, short ones first, until it is told
  /// to stop.
  template <typename Visit>
  void for_stages_from(int begin, Visit&& visit) const {
    double weight = 0;
    for (int end = begin + 1; std::cmp_less_equal(end, weights_.size()); ++end) {
      weight += weights_[size(end - 1)];
      const bool is_allowed = std::cmp_equal(end, weights_.size()) || may_begin_[size(end)];
      if (is_allowed && !visit(end, weight)) return;
    }
  }

  std::vector<double> with_one_more() const {
    const auto& after = best_.back();
    std::vector<double> best(weights_.size() + 1, kImpossible);
    for (int begin = 0; std::cmp_less(begin, weights_.size()); ++begin) {
      auto& least = best[size(begin)];
      for_stages_from(begin, [&](int end, double weight) {
        least = std::min(least, std::max(weight, after[size(end)]));
        return weight <= least;  // longer ones only take longer
      });
    }
    return best;
  }

  int next_beginning(int begin, int stages_left, double slowest) const {
    const auto& after = best_[size(stages_left)];
    int next = begin + 1;
    for_stages_from(begin, [&](int end, double) {
      next = end;
      return after[size(end)] > slowest;
    });
    return next;
  }

  std::vector<double> weights_;
  std::vector<bool> may_begin_;
  std::vector<std::vector<double>> best_;  ///< by number of stages and first block
};

std::vector<double> weights_of(const ModelProfile& profile) {
  std::vector<double> weights;
  for (const auto& block : profile.blocks) {
    // One byte more, or blocks that keep nothing could all be in one stage, and others be empty.
    weights.push_back(profile.is_timed ? block.forward_s + block.backward_s
                                       : static_cast<double>(block.kept_bytes) + 1);
  }
  return weights;
}

std::vector<bool> allowed_beginnings(const ModelProfile& profile) {
  std::vector<bool> allowed;
  for (int block = 0; block < num_blocks(profile); ++block) {
    allowed.push_back(may_begin_stage(profile, block));
  }
  return allowed;
}

/// Those with which a stage but the first may begin.
std::vector<std::string> names_to_split_at(const ModelProfile& profile) {
  const auto allowed = allowed_beginnings(profile);
  std::vector<std::string> names;
  for (std::size_t block = 1; block < allowed.size(); ++block) {
    if (allowed[block]) names.push_back(profile.blocks[block].name);
  }
  return names;
}

void require_blocks(const ModelProfile& profile) {
  if (!profile.blocks.empty()) return;
  throw Error(ErrorKind::Options, "stages: expected a model that lists its blocks, found none");
}

std::optional<int> find_block(const ModelProfile& profile, const std::string& name) {
  const auto found = std::find_if(profile.blocks.begin(), profile.blocks.end(),
                                  [&](const BlockProfile& block) { return block.name == name; });
  if (found == profile.blocks.end()) return std::nullopt;
  return static_cast<int>(found - profile.blocks.begin());
}

/// What separates when a stage begins here: "'head' shares 'embed.weight' with 'embed'".
std::string what_shares(const ModelProfile& profile, int beginning) {
  for (auto block = size(beginning); block < profile.blocks.size(); ++block) {
    const auto& later = profile.blocks[block];
    if (later.shares_with >= beginning) continue;
    return fmt::format("'{}' shares '{}' with '{}'", later.name, later.shares,
                       profile.blocks[size(later.shares_with)].name);
  }
  return {};
}

/// What is wrong with one of the names, given those before it; nothing if nothing is.
std::string complaint_about(const ModelProfile& profile, const std::vector<std::string>& names,
                            std::size_t position) {
  const auto& name = names[position];
  const auto block = find_block(profile, name);
  if (!block) return fmt::format("expected names of blocks, found '{}'", name);
  if (*block == 0) {
    return fmt::format("expected blocks after the first, found '{}', which begins the first stage",
                       name);
  }
  const auto before = names.begin() + static_cast<std::ptrdiff_t>(position);
  if (std::find(names.begin(), before, name) != before) {
    return fmt::format("expected each block once, found '{}' twice", name);
  }
  if (position > 0 && *block < find_block(profile, names[position - 1])) {
    return fmt::format("expected blocks in the order of the model, found '{}' after '{}'", name,
                       names[position - 1]);
  }
  const auto sharing = what_shares(profile, *block);
  if (sharing.empty()) return {};
  return fmt::format(
      "expected what shares a tensor in one stage, found '{}' as the beginning of "
      "one: {}",
      name, sharing);
}

std::string complaint_about(const ModelProfile& profile, const std::vector<std::string>& names) {
  for (std::size_t position = 0; position < names.size(); ++position) {
    auto complaint = complaint_about(profile, names, position);
    if (!complaint.empty()) return complaint;
  }
  return {};
}

/// What was probably meant: the nearest names, in order and once each.
std::vector<std::string> repaired(const ModelProfile& profile,
                                  const std::vector<std::string>& names) {
  const auto right = names_to_split_at(profile);
  std::vector<std::string> meant;
  for (const auto& candidate : right) {
    const bool is_meant = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return closest(name, right) == candidate;
    });
    if (is_meant) meant.push_back(candidate);
  }
  return meant;
}

/// As many stages as were asked for, or as many as there can be.
std::vector<std::string> even_names(const ModelProfile& profile, std::size_t stages) {
  const auto most = names_to_split_at(profile).size() + 1;
  const auto split = split_evenly(profile, static_cast<int>(std::min(stages, most)));
  std::vector<std::string> names;
  for (std::size_t stage = 1; stage < split.size(); ++stage) {
    names.push_back(profile.blocks[size(split[stage])].name);
  }
  return names;
}

Error wrong_split(const ModelProfile& profile, const std::vector<std::string>& names,
                  const std::string& complaint) {
  const auto right = names_to_split_at(profile);
  if (right.empty()) {
    return {ErrorKind::Options,
            fmt::format("split: {}; this model has no block that another stage may begin with",
                        complaint),
            "leave out --split, with --devices-per-replica 1"};
  }
  auto better = repaired(profile, names);
  if (better.empty()) better = even_names(profile, names.size() + 1);
  return {ErrorKind::Options,
          fmt::format("split: {}; a stage may begin with: {}", complaint, fmt::join(right, ", ")),
          fmt::format("--split {}", fmt::join(better, ","))};
}

}  // namespace

StageSplit split_evenly(const ModelProfile& profile, int stages) {
  require_blocks(profile);
  const auto most = names_to_split_at(profile).size() + 1;
  if (stages < 1 || std::cmp_greater(stages, most)) {
    throw Error(ErrorKind::Options,
                fmt::format("stages: expected 1 to {}, as many as there are blocks that one may "
                            "begin with, found {}",
                            most, stages),
                fmt::format("--devices-per-replica {}", stages < 1 ? 1 : most));
  }
  return EvenSplit(weights_of(profile), allowed_beginnings(profile)).into(stages);
}

StageSplit split_at(const ModelProfile& profile, const std::vector<std::string>& names) {
  require_blocks(profile);
  const auto complaint = complaint_about(profile, names);
  if (!complaint.empty()) throw wrong_split(profile, names, complaint);
  StageSplit split{0};
  for (const auto& name : names) split.push_back(*find_block(profile, name));
  return split;
}

double slowest_stage(const ModelProfile& profile, const StageSplit& split) {
  double slowest = 0;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const auto end = stage + 1 < split.size() ? size(split[stage + 1]) : profile.blocks.size();
    double time = 0;
    for (auto block = size(split[stage]); block < end; ++block) {
      time += profile.blocks[block].forward_s + profile.blocks[block].backward_s;
    }
    slowest = std::max(slowest, time);
  }
  return slowest;
}

}  // namespace lockstep::plan
