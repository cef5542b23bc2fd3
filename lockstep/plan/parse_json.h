#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace lockstep::plan {

/// Fields in the order in which they were written.
using Json = nlohmann::ordered_json;

/// Text from anywhere. Errors: `Data`, beginning with `where`, for what is no JSON or is nested
/// deeper than anything that we write: what is deep takes a hundred times its length in memory.
Json parse_json(std::string_view where, std::string_view text);

/// A value for a message: "3", "an array"; what is long only by its kind.
std::string described(const Json& json);

}  // namespace lockstep::plan
