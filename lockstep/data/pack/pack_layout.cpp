#include "lockstep/data/pack/pack_layout.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"

namespace lockstep::data {
namespace {

using Json = nlohmann::json;

template <typename Enum, std::size_t count>
Enum parse_name(const std::string& name, const std::array<Enum, count>& values) {
  for (const auto value : values) {
    if (name_of(value) == name) return value;
  }
  throw std::invalid_argument(fmt::format("what is '{}'?", name));
}

constexpr std::array kDataTypes{DataType::F16, DataType::BF16, DataType::F32, DataType::F64,
                                DataType::I32, DataType::I64,  DataType::U8};
constexpr std::array kFieldKinds{FieldKind::Fixed, FieldKind::Varying, FieldKind::AnySizeImage};

Json to_value(const Field& field) {
  return {{"name", field.name},
          {"type", lockstep::name_of(field.type)},
          {"shape", field.shape},
          {"kind", name_of(field.kind)}};
}

Field field_of(const Json& value) {
  return {.name = value.at("name"),
          .type = parse_name(value.at("type"), kDataTypes),
          .shape = value.at("shape"),
          .kind = parse_name(value.at("kind"), kFieldKinds)};
}

Json to_value(const PackTable& table) {
  return {{"offset", table.offset}, {"count", table.count}, {"checksum", table.checksum}};
}

PackTable table_of(const Json& value) {
  return {value.at("offset"), value.at("count"), value.at("checksum")};
}

PackFooter footer_of(const Json& json) {
  PackFooter footer{.name = json.at("name"),
                    .fields = {},
                    .class_names = json.at("class_names"),
                    .samples = json.at("samples"),
                    .record_bytes = json.at("record_bytes"),
                    .stores_files = json.at("stores_files"),
                    .is_verified = json.at("is_verified"),
                    .differing = json.at("differing"),
                    .fingerprint = json.at("fingerprint"),
                    .blocks = table_of(json.at("blocks")),
                    .index = table_of(json.at("index"))};
  for (const auto& field : json.at("fields")) footer.fields.push_back(field_of(field));
  return footer;
}

}  // namespace

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum_of(const PackPreamble& preamble) noexcept {
  return XXH3_64bits(&preamble, offsetof(PackPreamble, checksum));
}

std::string to_json(const PackFooter& footer) {
  Json fields = Json::array();
  for (const auto& field : footer.fields) fields.push_back(to_value(field));
  const Json json{{"name", footer.name},
                  {"fields", fields},
                  {"class_names", footer.class_names},
                  {"samples", footer.samples},
                  {"record_bytes", footer.record_bytes},
                  {"stores_files", footer.stores_files},
                  {"is_verified", footer.is_verified},
                  {"differing", footer.differing},
                  {"fingerprint", footer.fingerprint},
                  {"blocks", to_value(footer.blocks)},
                  {"index", to_value(footer.index)},
                  {"made_by", fmt::format("lockstep {}", version())}};
  // Names of folders need not be UTF-8, and JSON must be: what is not is replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

PackFooter parse_footer(const std::string& where, const std::string& json) {
  try {
    auto footer = footer_of(Json::parse(json));
    check_fields(where, footer.fields);
    return footer;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::Data, fmt::format("{}: expected the description of a set, found: {}",
                                             where, error.what()));
  }
}

std::uint64_t fixed_record_bytes(const std::vector<Field>& fields) noexcept {
  std::uint64_t bytes = 0;
  for (const auto& field : fields) {
    if (field.kind != FieldKind::Fixed) return 0;
    bytes += padded(bytes_of(field));
  }
  return bytes;
}

}  // namespace lockstep::data
