#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/checkpoint/checkpoint_folder.h"

namespace lockstep::checkpoint {

/// A checkpoint as far as it matters for whether it stays.
struct Candidate {
  std::filesystem::path path;
  bool is_whole = false;  ///< by its manifest and the sizes of its files
  std::optional<double> metric{};
};

/// The checkpoints of a folder, the oldest first.
std::vector<Candidate> candidates_in(const std::filesystem::path& folder,
                                     const std::string& metric);

/// The greatest value that a metric has in any whole checkpoint of a folder, by which the best of
/// them is told. What is no number never counts, and nothing in a checkpoint that is damaged does.
/// Errors: `Io`, naming the folder.
LOCKSTEP_PRIVATE_API std::optional<double> best_metric(const std::filesystem::path& folder,
                                                       const std::string& metric);

/// Which of them go now that `written` is there, which always stays. The last are counted from it
/// backwards, and damaged ones are not among them. What comes after it stays, damaged or not, as
/// when training went on from an earlier one: it may be all that there is of another run.
std::vector<std::filesystem::path> superfluous(const std::vector<Candidate>& candidates,
                                               const std::filesystem::path& written,
                                               const Keeping& keeping);

}  // namespace lockstep::checkpoint
