#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// "4K", "100M", "1G" or plain bytes as a number of bytes, where K is 1024; nothing if the text is
/// anything else or does not fit.
std::optional<std::int64_t> parse_size(std::string_view text);

/// "4 KiB", "100 MiB", "1000 B": the largest unit in which it is a whole number.
std::string size_text(std::int64_t bytes);

}  // namespace lockstep::cli
