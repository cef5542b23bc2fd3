#include "lockstep/cli/byte_size.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <limits>

#include "lockstep/base/strings.h"

namespace lockstep::cli {
namespace {

struct Unit {
  char letter;
  const char* name;
  std::int64_t bytes;
};

constexpr std::array kUnits{Unit{'G', "GiB", 1 << 30}, Unit{'M', "MiB", 1 << 20},
                            Unit{'K', "KiB", 1 << 10}};
constexpr Unit kPlainBytes{'\0', "B", 1};

/// The unit that the text ends in.
Unit unit_of(std::string_view text) {
  const char last = text.empty()
                        ? '\0'
                        : static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
  for (const auto& unit : kUnits) {
    if (unit.letter == last) return unit;
  }
  return kPlainBytes;
}

}  // namespace

std::optional<std::int64_t> parse_size(std::string_view text) {
  const auto unit = unit_of(text);
  const auto count = parse_integer(unit.bytes == 1 ? text : text.substr(0, text.size() - 1));
  const auto most = std::numeric_limits<std::int64_t>::max() / unit.bytes;
  if (!count || *count < 0 || *count > most) return std::nullopt;
  return *count * unit.bytes;
}

std::string size_text(std::int64_t bytes) {
  for (const auto& unit : kUnits) {
    if (bytes >= unit.bytes && bytes % unit.bytes == 0) {
      return fmt::format("{} {}", bytes / unit.bytes, unit.name);
    }
  }
  return fmt::format("{} {}", bytes, kPlainBytes.name);
}

}  // namespace lockstep::cli
