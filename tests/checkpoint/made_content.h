#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint_folder.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::testing {

/// Bytes that differ for every salt and position.
inline std::string salted_bytes(std::size_t count, std::uint32_t salt) {
  std::string bytes;
  std::uint32_t state = salt * 2654435761u + 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

/// What a training would leave at a step. Another salt makes other tensors of it.
inline checkpoint::Content made_content(std::int64_t step, std::uint32_t salt = 0,
                                        std::size_t elements = 40) {
  const auto seed = static_cast<std::uint32_t>(step) * 1000 + salt;
  const auto extent = static_cast<std::int64_t>(elements);
  checkpoint::Content content;
  content.manifest.position = {step, 1 + step / 10, step % 10, step / 10};
  content.manifest.options = {{"model", "resnet20"}, {"lr", "0.05"}, {"batch-size", "16"}};
  content.manifest.reason = "interval";
  add_tensor(content.weights, "fc.weight", weights::ElementType::F32, {extent},
             salted_bytes(elements * 4, seed));
  add_tensor(content.weights, "bn.seen", weights::ElementType::I64, {}, salted_bytes(8, seed + 1));
  content.weights.ties = {{"head.weight", "fc.weight"}};
  add_tensor(content.state, "momentum/fc.weight", weights::ElementType::F32, {extent},
             salted_bytes(elements * 4, seed + 2));
  add_tensor(content.state, "scale", weights::ElementType::F64, {1}, salted_bytes(8, seed + 3));
  content.state.metadata = {{"progress", "{\"loss\": 0.5}"}};
  return content;
}

/// Whether a checkpoint holds exactly this.
inline bool holds(const checkpoint::Checkpoint& found, const checkpoint::Content& content) {
  const auto equal = [](const weights::WeightFile& file, const weights::TensorSet& set) {
    if (file.tensors().size() != set.tensors.size()) return false;
    for (const auto& tensor : set.tensors) {
      const auto* const read = file.find(tensor.name);
      if (read == nullptr || read->type != tensor.type || read->shape != tensor.shape ||
          text_of(read->bytes) != text_of(tensor.bytes)) {
        return false;
      }
    }
    return true;
  };
  const auto& manifest = found.manifest();
  return manifest.position == content.manifest.position &&
         manifest.options == content.manifest.options &&
         manifest.metrics == content.manifest.metrics &&
         manifest.reason == content.manifest.reason && manifest.job == content.manifest.job &&
         equal(found.weights(), content.weights) && equal(found.state(), content.state);
}

/// The names in a folder, sorted; those that begin with a dot as well.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string step_name(int step) {
  auto digits = std::to_string(step);
  return "step-" + std::string(12 - digits.size(), '0') + digits;
}

}  // namespace lockstep::testing
