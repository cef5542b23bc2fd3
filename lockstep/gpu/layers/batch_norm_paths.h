#pragma once

#include <string>
#include <vector>

#include "lockstep/gpu/layers/batch_norm.h"

namespace lockstep::gpu {

/// What a thread reads and writes at once, where memory is aligned for it.
inline constexpr int kPacketBytes = 16;

// How batch normalization runs on a chip: for those who choose it, test it and measure it.

enum class NormPathKind : std::uint8_t {
  /// Statistics first, then a second pass over memory: any chip, any shape, any alignment.
  Streaming,
  /// A block of threads, or a cluster of blocks, keeps a slice of a group's channels on the chip:
  /// in registers, and beside them in shared memory. What is more than fits is read twice, the
  /// second time from the chip's cache. Takes a Hopper, and packets of 16 bytes.
  Resident,
};

struct NormPath {
  NormPathKind kind = NormPathKind::Streaming;
  int threads = 0;  ///< this and the next: one of `kResidentBlocks`
  int packets = 0;  ///< of 16 bytes that each thread keeps
  int lanes = 0;    ///< packets side by side in a row of the slice: 1, 2, 4, 8 or 16
  int cluster = 0;  ///< blocks: 1, 2, 4 or 8; 16 where the chip can
  bool operator==(const NormPath&) const = default;
};

struct ResidentBlock {
  int threads;
  int packets;
};

/// What kernels are compiled for, smaller ones first.
inline constexpr ResidentBlock kResidentBlocks[] = {
    {256, 4}, {256, 8}, {128, 16}, {256, 16}, {512, 16}};

enum class NormPass : std::uint8_t {
  Forward,
  Backward,
  BackwardOfSum,  ///< through an addition: more is read and written for each number
};

/// What a choice depends on, besides the shape and the alignment of memory.
struct NormChip {
  int compute_major = 0;
  int multiprocessors = 1;
};

/// Of the calling thread's GPU.
NormChip norm_chip();

/// Whether rows begin at 16 bytes, given that the batch does.
bool has_wide_rows(const NormShape& shape);

/// The path of a batch whose memory is aligned to 16 bytes.
NormPath choose_norm_path(const NormShape& shape, NormPass pass, const NormChip& chip);

/// All resident paths that this shape can take, best or not.
std::vector<NormPath> resident_paths(const NormShape& shape, int largest_cluster);

/// As "256x16 lanes 8 cluster 2", or "streaming".
std::string to_string(const NormPath& path);

/// The path that a call takes by itself: by its shape, its pointers and the current GPU.
NormPath norm_path_of(const NormForward& call);
NormPath norm_path_of(const NormBackward& call);

/// Calls that take this path. Errors: `Options` where it is not for this shape or alignment.
void norm_forward(const NormForward& call, const NormPath& path, Stream stream);
void norm_backward(const NormBackward& call, const NormPath& path, Stream stream);

}  // namespace lockstep::gpu
