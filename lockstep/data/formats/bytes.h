#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::data {

/// What a reader reads: the content of a file, in memory of the caller.
using Bytes = std::span<const std::uint8_t>;

Bytes as_bytes(std::string_view content) noexcept;
std::string_view as_text(Bytes bytes) noexcept;

/// The error for a file that is not what it should be:
/// "where: at byte 16: expected 784 bytes, found 12".
Error damaged(std::string_view where, std::size_t offset, std::string_view expected,
              std::string_view found, std::string hint = {});

/// The first bytes, for messages: "89 50 4e 47", or "nothing".
std::string to_hex(Bytes bytes, std::size_t most = 8);

/// What a file says, fit for a message: cut at `most` bytes, '?' for what no terminal should get.
std::string printable(std::string_view text, std::size_t most = 80);

/// Many times what the largest file of a known set has.
inline constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;

/// Replaces `content` by a whole file; its memory is used again where it is large enough.
///
/// Errors, naming the file: `Io`, also where the memory does not suffice; `Data` where the file has
/// more than `kMostFileBytes`.
void read_file_into(const std::filesystem::path& path, std::string& content);

}  // namespace lockstep::data
