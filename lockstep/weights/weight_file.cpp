#include "lockstep/weights/weight_file.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/mapped_file.h"
#include "lockstep/data/formats/bytes.h"
#include "lockstep/weights/digest.h"
#include "lockstep/weights/safetensors.h"
#include "lockstep/weights/state_dict.h"

namespace lockstep::weights {
namespace {

WeightFormat recognize(std::span<const std::byte> file, const std::string& where) {
  if (is_state_dict(file)) return WeightFormat::StateDict;
  // The length of a header comes first, which can be any 8 bytes.
  constexpr std::size_t kHeaderAt = 8;
  if (file.size() > kHeaderAt && file[kHeaderAt] == std::byte{'{'}) {
    return WeightFormat::Safetensors;
  }
  const data::Bytes begin(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  throw Error(
      ErrorKind::Data,
      fmt::format("{}: expected a safetensors file or a state dict of PyTorch, found {}", where,
                  file.empty() ? "an empty file"
                               : fmt::format("one that begins with {}", data::to_hex(begin))));
}

}  // namespace

std::string WeightFile::digest() const {
  return digest_of(set_);
}

WeightFile read_weights(const std::filesystem::path& path) {
  const auto where = path.string();
  auto file = std::make_shared<const MappedFile>(where);
  const auto format = recognize(file->bytes(), where);
  auto set = format == WeightFormat::Safetensors ? read_safetensors(file->bytes(), where)
                                                 : read_state_dict(file->bytes(), where);
  return {path, std::move(file), format, std::move(set)};
}

void write_weights(const std::filesystem::path& path, const TensorSet& set) {
  if (format_for(path) == WeightFormat::Safetensors) {
    write_safetensors(path, set);
  } else {
    write_state_dict(path, set);
  }
}

}  // namespace lockstep::weights
