#include <nlohmann/json.hpp>

#include <cstring>
#include <memory>
#include <string>

#include "lockstep/data/pack/pack_dataset.h"
#include "lockstep/data/pack/pack_layout.h"
#include "tests/fuzz/fuzz_target.h"

using namespace lockstep::data;

namespace {

void read_all(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  const auto pack =
      PackDataset::open("fuzz", std::as_bytes(std::span(owner->data(), owner->size())), owner);
  Sample sample(pack->fields());
  for (std::int64_t i = 0; i < pack->size(); ++i) pack->sample(i, sample);
}

std::span<const std::byte> part(const std::string& bytes, std::uint64_t offset,
                                std::uint64_t count) {
  if (offset > bytes.size() || count > bytes.size() - offset) return {};
  return std::as_bytes(std::span(bytes.data() + offset, count));
}

/// Puts the right checksums into a description, so that what is behind them is reached.
std::string repaired_footer(const std::string& bytes, std::string text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return text;
  for (const auto* const name : {"blocks", "index"}) {
    auto& table = json[name];
    if (!table.is_object() || !table["offset"].is_number_unsigned() ||
        !table["count"].is_number_unsigned()) {
      continue;
    }
    const auto count = table["count"].get<std::uint64_t>();
    if (count > bytes.size()) continue;
    table["checksum"] = checksum_of(part(bytes, table["offset"], count * 8));
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The same pack with checksums that are right. The description is moved to the end, since it may
/// have become longer.
std::string repaired(std::string bytes) {
  PackPreamble preamble;
  if (bytes.size() < sizeof preamble) return bytes;
  std::memcpy(&preamble, bytes.data(), sizeof preamble);
  const auto footer = part(bytes, preamble.footer_offset, preamble.footer_bytes);
  const auto text = repaired_footer(
      bytes, std::string(reinterpret_cast<const char*>(footer.data()), footer.size()));
  preamble.footer_offset = bytes.size();
  preamble.footer_bytes = text.size();
  preamble.footer_checksum = checksum_of(std::as_bytes(std::span(text.data(), text.size())));
  bytes += text;
  preamble.file_bytes = bytes.size();
  preamble.checksum = checksum_of(preamble);
  std::memcpy(bytes.data(), &preamble, sizeof preamble);
  return bytes;
}

}  // namespace

LOCKSTEP_FUZZ_TARGET(file) {
  const std::string bytes(as_text(file));
  try {
    read_all(bytes);
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::Data) throw;
  }
  read_all(repaired(bytes));
}
