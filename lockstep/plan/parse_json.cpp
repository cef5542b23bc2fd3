#include "lockstep/plan/parse_json.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::plan {

Json parse_json(std::string_view where, std::string_view text) {
  constexpr int kMostLevels = 16;
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    if (depth <= kMostLevels) return true;
    throw Error(ErrorKind::Data, fmt::format("{}: expected JSON of at most {} levels, found more",
                                             where, kMostLevels));
  };
  // The parser's own messages hold what it read, whatever that is.
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::parse_error& error) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: expected JSON, found something else at byte {} of {}", where,
                            error.byte, text.size()));
  } catch (const Json::out_of_range&) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: expected numbers, found one that is too large", where));
  }
}

std::string described(const Json& json) {
  constexpr std::size_t kMostBytes = 40;
  if (json.is_structured()) return fmt::format("an {}", json.type_name());
  // Names need not be UTF-8, and JSON must be.
  const auto text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMostBytes ? text : fmt::format("a long {}", json.type_name());
}

}  // namespace lockstep::plan
