#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "lockstep/weights/tensor_set.h"

/// Files of PyTorch's `torch.save(model.state_dict(), …)`: since 1.6 a zip file of a pickle and
/// storages, before that a row of pickles followed by the storages.
namespace lockstep::weights {

/// Whether a file is one that `torch.load` might read, by its first bytes.
bool is_state_dict(std::span<const std::byte> file) noexcept;

/// Reads a file in memory, of either format; no program in it is run. The tensors refer to it,
/// except for those that are not stored row-major, as channels-last ones: they get memory of their
/// own. Parameters are tensors, several names of one tensor are ties, and a checkpoint that has the
/// state dict as `state_dict`, `model_state_dict` or `model` is as good as the state dict itself.
///
/// Checksums of zip files are checked. Errors: `Data`, which `where` begins.
TensorSet read_state_dict(std::span<const std::byte> file, std::string_view where);

/// Replaces a file by one in the zip format, which every PyTorch since 1.6 reads, also with
/// `weights_only=True`. Storages are aligned to 64 bytes. The format has no place for metadata.
///
/// Errors: `Io`, naming the file; `Options` for types that PyTorch's format has no storage for and
/// what `in_order` refuses.
void write_state_dict(const std::filesystem::path& path, const TensorSet& set);

}  // namespace lockstep::weights
