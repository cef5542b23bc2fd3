#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/weights/weight_file.h"

namespace lockstep::checkpoint {

/// The tensors of the model, as a weight file of its own that anything else can read.
inline constexpr std::string_view kWeightsName = "weights.safetensors";
/// What the optimizer keeps, and the rest of the state of a training.
inline constexpr std::string_view kStateName = "state.safetensors";

/// A checkpoint that was read and found whole: every file has the checksum that it should have.
/// The files stay mapped while this lives.
class Checkpoint {
 public:
  /// Errors, naming the file: `Io`; `Data` where anything is damaged, missing or too much.
  static Checkpoint open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const noexcept { return path_; }
  const Manifest& manifest() const noexcept { return manifest_; }
  const weights::WeightFile& weights() const noexcept { return weights_; }
  const weights::WeightFile& state() const noexcept { return state_; }

 private:
  Checkpoint(std::filesystem::path path, Manifest manifest, weights::WeightFile weights,
             weights::WeightFile state);

  std::filesystem::path path_;
  Manifest manifest_;
  weights::WeightFile weights_;
  weights::WeightFile state_;
};

/// The manifest of a checkpoint whose files are all there and as large as they should be. What is
/// in them is not read: `Checkpoint::open` does that. Errors as there.
Manifest read_manifest(const std::filesystem::path& folder);

/// The folders of checkpoints in `folder`, whole or not, the oldest first; none where it is not
/// there. Errors: `Io`, naming it.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

/// The newest checkpoint that is whole. `on_damaged`, if any, hears of those after it that are not.
/// With `is_wanted`, others are passed over in silence, damaged or not, as far as their manifest
/// can be read. Somebody may be writing into the folder meanwhile. Errors: `Io`, naming it.
std::optional<Checkpoint> newest_checkpoint(
    const std::filesystem::path& folder,
    const std::function<void(const std::filesystem::path&, const std::string& why)>& on_damaged,
    const std::function<bool(const Manifest&)>& is_wanted = {});

}  // namespace lockstep::checkpoint
