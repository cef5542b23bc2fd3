#include "lockstep/checkpoint/folder_name.h"

#include <fmt/format.h>

#include <random>

#include "lockstep/base/strings.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kReplaced = ".replaced";

}  // namespace

std::string to_text(const FolderName& name) {
  return fmt::format("{}{:012}{}", kPrefix, name.step, name.is_current ? "" : kReplaced);
}

std::optional<FolderName> parse_folder_name(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  FolderName name{.is_current = !text.ends_with(kReplaced)};
  auto digits = text.substr(kPrefix.size());
  if (!name.is_current) digits.remove_suffix(kReplaced.size());
  const auto step = parse_integer(digits);
  if (!step || *step < 0) return std::nullopt;
  name.step = *step;
  // One name for each step: "step-5" was not written by us.
  return to_text(name) == text ? std::optional(name) : std::nullopt;
}

std::string partial_name(std::string_view of) {
  std::random_device random;
  return fmt::format("{}{}-{:08x}", kPartialPrefix, of, random());
}

}  // namespace lockstep::checkpoint
