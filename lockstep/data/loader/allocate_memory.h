#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "lockstep/base/export.h"

// Apart from BatchMemory, which is internal, because LoaderOptions names both.
namespace lockstep::data {

/// Where the memory of batches comes from: given a number of bytes, memory that begins at a page or
/// at least at a cache line. Hand one in to have it pinned for a GPU.
using AllocateMemory = std::function<std::shared_ptr<std::byte>(std::size_t)>;

/// Plain memory, in huge pages where the machine has them. Throws `Unavailable` where there is
/// none.
LOCKSTEP_API std::shared_ptr<std::byte> allocate_pages(std::size_t bytes);

}  // namespace lockstep::data
