#include "lockstep/weights/safetensors.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/partial_file.h"
#include "lockstep/data/formats/bytes.h"
#include "lockstep/weights/safetensors_header.h"

namespace lockstep::weights {
namespace {

using data::damaged;
using data::printable;

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kLengthBytes = 8;
/// The reference reader's limit.
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr std::size_t kAlignment = 8;
constexpr const char* kFormatKey = "format";

std::string_view header_text(std::span<const std::byte> file, std::string_view where) {
  if (file.size() < kLengthBytes) {
    throw damaged(where, 0, "8 bytes that tell the length of the header",
                  fmt::format("a file of {}", file.size()));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto most = std::min<std::uint64_t>(kMostHeaderBytes, file.size() - kLengthBytes);
  if (length > most) {
    throw damaged(where, 0, fmt::format("a header of at most {} bytes", most),
                  fmt::format("{}", length), "the file may be cut off: get it again");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              static_cast<std::size_t>(length));
  if (!text.starts_with('{')) {
    throw damaged(where, kLengthBytes, "a header that begins with '{'",
                  text.empty() ? "nothing" : fmt::format("'{}'", printable(text, 8)));
  }
  return text;
}

TensorView view_of(const SafetensorsEntry& entry, std::span<const std::byte> buffer,
                   std::string_view where) {
  const auto tensor = fmt::format("{}: tensor '{}'", where, printable(entry.name));
  if (entry.begin > entry.end || entry.end > buffer.size()) {
    throw Error(ErrorKind::Data, fmt::format("{}: expected data_offsets within {} bytes, found "
                                             "[{}, {}]",
                                             tensor, buffer.size(), entry.begin, entry.end));
  }
  const auto bytes = bytes_of(entry.type, entry.shape);
  if (bytes != entry.end - entry.begin) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: expected {} bytes for {}, found {}", tensor,
                            bytes ? fmt::format("{}", *bytes) : "more than there can be",
                            describe(entry.type, entry.shape), entry.end - entry.begin));
  }
  return {entry.name, entry.type, entry.shape, buffer.subspan(entry.begin, *bytes)};
}

/// Every byte belongs to one tensor: what is stored twice or not described was put there to hide.
void check_coverage(std::vector<SafetensorsEntry> entries, std::size_t size,
                    std::string_view where) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const auto& entry : entries) {
    if (entry.begin != covered) {
      throw Error(ErrorKind::Data,
                  fmt::format("{}: expected tensor '{}' to begin at {}, where the one before it "
                              "ends, found {}",
                              where, printable(entry.name), covered, entry.begin));
    }
    covered = entry.end;
  }
  if (covered != size) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: expected the tensors to end with the file, found {} bytes after "
                            "the last",
                            where, size - covered));
  }
}

/// Which of the metadata may be second names of stored tensors. Nothing marks them as such:
/// {"best_layer": "fc1.bias"} is a note. So they stay metadata too.
std::vector<Tied> possible_ties_of(const std::map<std::string, std::string>& metadata,
                                   const TensorSet& stored) {
  std::vector<Tied> ties;
  for (const auto& [key, value] : metadata) {
    // "format" is "pt" in most files, and a tensor may well be called that.
    if (key != kFormatKey && stored.find(key) == nullptr && stored.find(value) != nullptr) {
      ties.push_back({key, value});
    }
  }
  return ties;
}

/// By element size, then by name: so that each is aligned to its elements without gaps.
std::vector<TensorView> in_file_order(std::vector<TensorView> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return size_of(a.type) > size_of(b.type);
  });
  return tensors;
}

std::string quoted(std::string_view text, std::string_view where) try {
  return nlohmann::json(text).dump();
} catch (const nlohmann::json::exception&) {
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected names in UTF-8, found '{}'", where, printable(text)));
}

std::string metadata_json(const TensorSet& set, std::string_view where) {
  auto metadata = set.metadata;
  // transformers refuses a file that does not say which library its tensors are of.
  metadata.try_emplace(kFormatKey, "pt");
  for (const auto& tie : set.ties) metadata[tie.name] = tie.kept;
  std::string json;
  for (const auto& [key, value] : metadata) {
    json +=
        fmt::format("{}{}:{}", json.empty() ? "" : ",", quoted(key, where), quoted(value, where));
  }
  return json;
}

std::string header_json(const TensorSet& set, const std::vector<TensorView>& tensors,
                        std::string_view where) {
  auto json = fmt::format("{{\"{}\":{{{}}}", kMetadataKey, metadata_json(set, where));
  std::size_t offset = 0;
  for (const auto& tensor : tensors) {
    if (tensor.name == kMetadataKey) {
      throw Error(ErrorKind::Options, fmt::format("{}: a tensor cannot be called '{}' in a "
                                                  "safetensors file",
                                                  where, kMetadataKey));
    }
    json += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        quoted(tensor.name, where), safetensors_name(tensor.type),
                        nlohmann::json(tensor.shape).dump(), offset, offset + tensor.bytes.size());
    offset += tensor.bytes.size();
  }
  json += '}';
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return json;
}

}  // namespace

TensorSet read_safetensors(std::span<const std::byte> file, std::string_view where) {
  const auto text = header_text(file, where);
  auto header = parse_safetensors_header(text, where);
  const auto buffer = file.subspan(kLengthBytes + text.size());
  TensorSet stored;
  for (const auto& entry : header.entries) stored.tensors.push_back(view_of(entry, buffer, where));
  check_coverage(std::move(header.entries), buffer.size(), where);
  auto set = in_order(std::move(stored), where);
  set.possible_ties = possible_ties_of(header.metadata, set);
  set.metadata = std::move(header.metadata);
  return set;
}

void write_safetensors(const std::filesystem::path& path, const TensorSet& set) {
  std::optional<PartialFile> file;  // made with the first byte: a set may be refused before
  write_safetensors(
      [&](std::span<const std::byte> bytes) {
        if (!file) file.emplace(path);
        file->append(bytes);
      },
      set, path.string());
  file->publish();
}

void write_safetensors(const std::function<void(std::span<const std::byte>)>& sink,
                       const TensorSet& set, std::string_view where) {
  const auto sorted = in_order(set, where);
  const auto tensors = in_file_order(sorted.tensors);
  const auto header = header_json(sorted, tensors, where);
  const std::uint64_t length = header.size();
  if (length > kMostHeaderBytes) {
    throw Error(ErrorKind::Options, fmt::format("{}: expected names that fit into a header of {} "
                                                "bytes, found {}",
                                                where, kMostHeaderBytes, length));
  }
  sink(std::as_bytes(std::span(&length, 1)));
  sink(std::as_bytes(std::span(header)));
  for (const auto& tensor : tensors) sink(tensor.bytes);
}

}  // namespace lockstep::weights
