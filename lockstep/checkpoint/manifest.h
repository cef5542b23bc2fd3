#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep::checkpoint {

/// Where in a training a checkpoint was taken.
struct Position {
  std::int64_t step = 0;             ///< optimizer steps so far
  std::int64_t epoch = 1;            ///< that the last of them was of, from 1
  std::int64_t epoch_step = 0;       ///< of this epoch so far
  std::int64_t finished_epochs = 0;  ///< with all that follows their last step
  bool operator==(const Position&) const = default;
};

/// What an epoch came to: decisions of later epochs may depend on it.
struct EpochEntry {
  std::int64_t fit = 1;    ///< the call of `Trainer::fit` that it was of, from 1
  std::int64_t epoch = 1;  ///< of that call
  std::map<std::string, double> training{};
  std::map<std::string, double> validation{};  ///< empty where there was none
  bool operator==(const EpochEntry&) const = default;
};

/// One of the files of a checkpoint.
struct FileEntry {
  std::string name;
  std::int64_t bytes = 0;
  std::string checksum;  ///< XXH3 of 128 bits: 32 hexadecimal digits
  bool operator==(const FileEntry&) const = default;
};

/// What a checkpoint is, and what its files have to be: `manifest.json`.
struct Manifest {
  Position position{};
  /// What the bits depend on, and so must be the same when training goes on: name and value, in
  /// the order in which they are shown.
  std::vector<std::pair<std::string, std::string>> options{};
  std::string weights{};                    ///< their digest
  std::map<std::string, double> metrics{};  ///< of an evaluation at this position, if there was one
  std::vector<EpochEntry> history{};        ///< of a `Trainer`
  std::string reason{};                     ///< why it was taken: "interval", "best", "signal", …
  std::string job{};                        ///< the launcher's name for the job; empty: none
  std::string written{};                    ///< when: "2026-11-15T21:40:07Z"
  std::vector<FileEntry> files{};
  bool operator==(const Manifest&) const = default;
};

inline constexpr std::string_view kManifestName = "manifest.json";

/// The text of the file, which holds a checksum of itself.
std::string to_json(const Manifest& manifest);

/// Reads it back. Errors: `Data`, which `where` begins, for any text that `to_json` did not make.
Manifest parse_manifest(std::string_view text, std::string_view where);

/// An option whose value was another when the checkpoint was taken.
struct Contradiction {
  std::string option;
  std::string was;  ///< "none" where it was not there
  std::string is;
  bool operator==(const Contradiction&) const = default;
};
LOCKSTEP_PRIVATE_API std::vector<Contradiction> contradictions(
    const Manifest& manifest, const std::vector<std::pair<std::string, std::string>>& options);

}  // namespace lockstep::checkpoint
