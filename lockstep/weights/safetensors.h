#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "lockstep/weights/tensor_set.h"

/// Files of huggingface's safetensors: the length of a JSON text as little-endian u64, the text,
/// and the tensors' bytes, which it describes.
///
///     {"fc.bias": {"dtype": "F32", "shape": [10], "data_offsets": [0, 40]}, …,
///      "__metadata__": {"format": "pt", "decoder.weight": "encoder.weight"}}
///
/// A tensor that has several names is stored under the first by sort; the others stand in the
/// metadata with that name, as safetensors' own `save_model` does it. Nothing tells them from notes
/// that happen to be the name of a tensor, so a reader takes them for possible ties only.
namespace lockstep::weights {

/// Reads a file in memory. The tensors refer to it.
///
/// Nothing in the file is believed: the tensors have to cover the bytes exactly, without overlaps
/// and holes, as the reference reader demands. There are no checksums in this format.
///
/// Errors: `Data`, which `where` begins.
TensorSet read_safetensors(std::span<const std::byte> file, std::string_view where);

/// Replaces a file. The elements of every tensor are aligned to their size.
///
/// Errors: `Io`, naming the file; `Options` for names that a file cannot hold and what `in_order`
/// refuses.
void write_safetensors(const std::filesystem::path& path, const TensorSet& set);

/// The same for what is no file yet: hands on the bytes of one in order, and those of the tensors
/// where they lie. What `sink` throws goes through. Errors: `Options` as above, which `where`
/// begins, before the first byte.
void write_safetensors(const std::function<void(std::span<const std::byte>)>& sink,
                       const TensorSet& set, std::string_view where);

}  // namespace lockstep::weights
