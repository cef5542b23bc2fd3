#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/weights/element_type.h"

namespace lockstep::weights {

/// A tensor as the header of a safetensors file describes it.
struct SafetensorsEntry {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< counted from the end of the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< as they stand in the file
  std::map<std::string, std::string> metadata;
};

inline constexpr std::string_view kMetadataKey = "__metadata__";

/// Reads the JSON text. Each entry is complete and its type known; whether the numbers fit the file
/// and each other is left to the caller.
///
/// Errors: `Data`, which `where` begins.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view where);

}  // namespace lockstep::weights
