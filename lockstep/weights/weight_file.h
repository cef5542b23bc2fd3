#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/export.h"
#include "lockstep/weights/tensor_set.h"
#include "lockstep/weights/weight_format.h"

namespace lockstep::weights {

/// A weight file, mapped into memory for as long as this object lives: its tensors refer to it.
/// Whoever replaces the file meanwhile, as `write_weights` does, changes nothing here; truncating
/// it in place would.
class LOCKSTEP_API WeightFile {
 public:
  /// `mapping` keeps the memory that the tensors of `set` refer to.
  WeightFile(std::filesystem::path path, std::shared_ptr<const void> mapping, WeightFormat format,
             TensorSet set)
      : path_(std::move(path)),
        mapping_(std::move(mapping)),
        format_(format),
        set_(std::move(set)) {}

  const std::filesystem::path& path() const noexcept { return path_; }
  WeightFormat format() const noexcept { return format_; }

  /// By ascending name.
  std::span<const TensorView> tensors() const noexcept { return set_.tensors; }
  std::span<const Tied> ties() const noexcept { return set_.ties; }
  std::span<const Tied> possible_ties() const noexcept { return set_.possible_ties; }
  const std::map<std::string, std::string>& metadata() const noexcept { return set_.metadata; }
  const TensorSet& set() const noexcept { return set_; }

  /// The tensor of that name, which may be a tied or possibly tied one; nothing if it is not there.
  const TensorView* find(std::string_view name) const noexcept { return set_.find(name); }

  std::string digest() const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const void> mapping_;
  WeightFormat format_;
  TensorSet set_;
};

/// Opens a weight file of any format. What it is, its content tells, not its name.
///
/// Errors, naming the file: `Io`; `Data` where it is damaged or of another kind.
LOCKSTEP_API WeightFile read_weights(const std::filesystem::path& path);

/// Replaces a file, which is whole on disk before it has its name. `.safetensors`, `.pt` and `.pth`
/// decide the format.
///
/// Errors, naming the file: `Io`; `Options` for another extension, and for tensors that the format
/// cannot hold.
LOCKSTEP_API void write_weights(const std::filesystem::path& path, const TensorSet& set);

}  // namespace lockstep::weights
