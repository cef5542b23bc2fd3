#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/base/file.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/weights/tensor_set.h"

namespace lockstep::checkpoint {

struct FolderName;
class PartialFolder;

/// What is written into a checkpoint. Files, weights and time of the manifest are filled in.
/// The tensors' memory has to stay as it is until then.
struct Content {
  Manifest manifest;
  weights::TensorSet weights;
  weights::TensorSet state;
};

/// Which checkpoints stay when another is there.
struct Keeping {
  int last = 2;  ///< with the one that was just written, which stays in any case
  /// The one with the greatest value of this metric stays too; empty: none does.
  std::string best_metric = "acc";
};

/// The folder in which a training leaves its checkpoints, for the one process that writes them:
///
///     DIR/step-000000000500/manifest.json, weights.safetensors, state.safetensors
///
/// A checkpoint is written beside its place, brought to disk file by file, and renamed: whoever
/// looks, and whatever crashes at whatever moment, finds it whole or not at all. Older ones go only
/// after that, and damaged ones with them; that some cannot be removed fails nothing. A lock on the
/// folder, where its file system has such, keeps a second writer out; it ends with the process.
///
/// One thread at a time.
class LOCKSTEP_PRIVATE_API CheckpointFolder {
 public:
  /// Makes the folder where it is not there, takes the lock, and removes what a crash left
  /// unfinished. Errors, naming the folder: `Io`; `Unavailable` where another training writes
  /// there.
  CheckpointFolder(std::filesystem::path folder, Keeping keeping);

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Writes a checkpoint and returns its folder. One of the same step is replaced.
  /// Errors: `Io`, naming the file, as where the disk is full; `Options` for names of tensors that
  /// a file cannot hold. Then all is as it was.
  std::filesystem::path write(const Content& content);

 private:
  void put_in_place(PartialFolder& partial, const FolderName& name);
  void clean_up();
  void prune(const FolderName& written) noexcept;
  void discard(const std::vector<std::filesystem::path>& folders);

  std::filesystem::path path_;
  Keeping keeping_;
  UniqueFd lock_;
};

}  // namespace lockstep::checkpoint
