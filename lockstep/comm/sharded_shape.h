#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/sharded_update.h"

/// What the shape of a `ShardedUpdate` comes to: whether it can be meant, whether everybody has the
/// same, and how much memory its parts take.
namespace lockstep::comm::sharded {

using Shape = ShardedUpdate::Shape;

/// Everything begins at a line of the cache, so that nobody writes where another reads.
inline constexpr std::size_t kLine = 64;

inline std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

/// Errors: `Options` for a shape that cannot be meant.
void check_shape(const Shape& shape, const std::string& name);
Shape with_blocks(Shape shape);

/// How many leaves each instance brings. Throws, on every instance, where shapes differ.
std::vector<int> agree_on_shape(Communicator& communicator, const Shape& shape,
                                const std::string& name);

std::size_t leaf_bytes_of(const Shape& shape);
std::size_t measured_bytes_of(const Shape& shape);
std::vector<hosts::Bucket> buckets_of(const Shape& shape);
/// What is there for other hosts: the sum, and how often each bucket was handed in.
std::size_t bytes_for_hosts(const Shape& shape, int num_hosts);
/// What ends with the instances: what is measured, and buffers for nodes.
std::size_t attempt_bytes_of(const Shape& shape, std::span<const LeafRange> ranges);
/// The commit word, two versions, and what they have in common.
std::size_t kept_bytes_of(const Shape& shape);

/// The blocks of one of `size` instances, from the first to the one behind the last.
std::pair<std::size_t, std::size_t> slice_blocks(const Shape& shape, int rank, int size);

}  // namespace lockstep::comm::sharded
