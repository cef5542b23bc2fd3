#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/data/pack/pack_dataset.h"
#include "lockstep/data/sets/found_set.h"

namespace lockstep::data {

/// Takes what a user should hear of, line by line.
using Tell = std::function<void(const std::string&)>;

/// Names, sizes and times of change of a set's files, in short. It changes when they do.
std::string fingerprint_of(const FoundSet& found);

/// What a pack should be like.
struct PackRequest {
  bool stores_files = false;  ///< see `PackOptions`
  int threads = 1;
  std::function<void(std::int64_t)> progress{};
};

/// Packs that were made before, in a folder: one file per set, made once and found again.
///
/// Any number of processes may ask for the same set at once: one of them makes the pack, the others
/// wait for it. What a process leaves that dies while it makes one, the next one removes.
class PackStore {
 public:
  /// The folder is made when it is needed.
  explicit PackStore(std::filesystem::path folder, Tell tell);

  /// Where the pack of a set is, or would be.
  std::filesystem::path path_of(const FoundSet& found) const;

  /// The pack of a set, if there is one and it is of the files as they are now. One that cannot be
  /// opened counts as none.
  std::shared_ptr<const PackDataset> find(const FoundSet& found) const;

  /// The pack of a set, made where there is none. Throws what reading the set throws, and `Io`
  /// where the pack cannot be written.
  std::shared_ptr<const PackDataset> find_or_make(const FoundSet& found) const;

  /// The same for a pack that is asked for by name: it must be as requested, and each of its bytes
  /// is checked; else it is made anew.
  std::shared_ptr<const PackDataset> check_or_make(const FoundSet& found,
                                                   const PackRequest& request) const;

  /// Makes a pack at a path of the caller's choice, in place of what is there.
  std::shared_ptr<const PackDataset> make(const FoundSet& found, const std::filesystem::path& path,
                                          const PackRequest& request) const;

 private:
  /// Whether a pack that was found will do.
  using WillDo = std::function<bool(const PackDataset&)>;

  std::shared_ptr<const PackDataset> make_once(const FoundSet& found, const PackRequest& request,
                                               const WillDo& will_do) const;

  std::filesystem::path folder_;
  Tell tell_;
};

/// Reports whether the files that a pack was made from have the published checksums.
void tell_of_originals(const PackDataset& pack, const Tell& tell);

}  // namespace lockstep::data
