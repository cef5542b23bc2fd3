#include "lockstep/data/pack/pack_dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/mapped_file.h"
#include "lockstep/data/formats/decode_image.h"

namespace lockstep::data {
namespace {

[[noreturn]] void refuse(const std::string& where, std::uint64_t offset,
                         const std::string& complaint) {
  throw Error(ErrorKind::Data, fmt::format("{}: at byte {}: {}", where, offset, complaint),
              "make the pack again: lockstep data pack");
}

PackPreamble read_preamble(const std::string& where, std::span<const std::byte> bytes) {
  PackPreamble preamble;
  if (bytes.size() < sizeof preamble) {
    refuse(where, bytes.size(),
           fmt::format("expected a pack, which begins with {} bytes, found {}", sizeof preamble,
                       bytes.size()));
  }
  std::memcpy(&preamble, bytes.data(), sizeof preamble);
  if (preamble.magic != kPackMagic) {
    refuse(where, 0, "expected a pack, which begins with 'LOCKPACK', found something else");
  }
  if (preamble.byte_order != kPackByteOrder) {
    refuse(where, offsetof(PackPreamble, byte_order),
           "expected little-endian numbers, found those of another machine");
  }
  if (preamble.version != kPackVersion) {
    refuse(where, offsetof(PackPreamble, version),
           fmt::format("expected version {}, found {}", kPackVersion, preamble.version));
  }
  if (preamble.checksum != checksum_of(preamble)) {
    refuse(where, offsetof(PackPreamble, checksum),
           fmt::format("expected the checksum {:016x}, found {:016x}", checksum_of(preamble),
                       preamble.checksum));
  }
  if (preamble.file_bytes != bytes.size()) {
    refuse(where, bytes.size(),
           fmt::format("expected {} bytes, found {}", preamble.file_bytes, bytes.size()));
  }
  return preamble;
}

/// Whether [offset, offset + bytes) is within the file, without overflow.
bool is_within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t file_bytes) {
  return offset <= file_bytes && bytes <= file_bytes - offset;
}

PackFooter read_footer(const std::string& where, std::span<const std::byte> bytes,
                       const PackPreamble& preamble) {
  const auto offset = preamble.footer_offset;
  if (!is_within(offset, preamble.footer_bytes, bytes.size()) ||
      !is_within(kPackRecordsOffset, preamble.records_bytes, bytes.size())) {
    refuse(where, 0, "expected records and a description within the file, found them beyond it");
  }
  const auto text = bytes.subspan(offset, preamble.footer_bytes);
  if (checksum_of(text) != preamble.footer_checksum) {
    refuse(where, offset,
           fmt::format("expected a description with the checksum {:016x}, found {:016x}",
                       preamble.footer_checksum, checksum_of(text)));
  }
  return parse_footer(fmt::format("{}: at byte {}", where, offset),
                      std::string(reinterpret_cast<const char*>(text.data()), text.size()));
}

std::span<const std::uint64_t> table_in(const std::string& where, std::span<const std::byte> bytes,
                                        const PackTable& table, const char* name) {
  constexpr auto kEntry = sizeof(std::uint64_t);
  if (table.count > bytes.size() / kEntry || table.offset % kEntry != 0 ||
      !is_within(table.offset, table.count * kEntry, bytes.size())) {
    refuse(where, table.offset,
           fmt::format("expected {} of {} entries within the file", name, table.count));
  }
  const auto part = bytes.subspan(table.offset, table.count * kEntry);
  if (checksum_of(part) != table.checksum) {
    refuse(where, table.offset,
           fmt::format("expected {} with the checksum {:016x}, found {:016x}", name, table.checksum,
                       checksum_of(part)));
  }
  return {reinterpret_cast<const std::uint64_t*>(part.data()),
          static_cast<std::size_t>(table.count)};
}

}  // namespace

/// Walks over the fields of one record.
class PackDataset::RecordReader {
 public:
  RecordReader(const PackDataset& pack, Extent extent) : pack_(pack), extent_(extent) {}

  const std::byte* bytes(std::uint64_t count) {
    const auto left = extent_.end - extent_.begin;
    // Compared before it is padded, so that nothing can overflow.
    if (count > left || padded(count) > left) {
      refuse(pack_.where_, kPackRecordsOffset + extent_.begin,
             fmt::format("expected {} more bytes of a record, found {}", count, left));
    }
    const auto* const data = pack_.records_.data() + extent_.begin;
    extent_.begin += padded(count);
    return data;
  }

  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, bytes(sizeof value), sizeof value);
    return value;
  }

  void field(std::size_t number_of_field, Sample& sample) {
    const auto& declared = pack_.fields()[number_of_field];
    switch (declared.kind) {
      case FieldKind::Fixed:
        return sample.refer(number_of_field, bytes(bytes_of(declared)));
      case FieldKind::Varying:
        return varying(number_of_field, declared, sample);
      case FieldKind::AnySizeImage:
        return pack_.footer_.stores_files ? stored(number_of_field, sample)
                                          : picture(number_of_field, declared, sample);
    }
  }

  void check_end() const {
    if (extent_.begin == extent_.end) return;
    refuse(pack_.where_, kPackRecordsOffset + extent_.begin,
           fmt::format("expected the end of a record, found {} more bytes",
                       extent_.end - extent_.begin));
  }

 private:
  void varying(std::size_t field, const Field& declared, Sample& sample) {
    const auto length = number<std::int64_t>();
    if (length < 0 || length > declared.shape[0]) {
      refuse(pack_.where_, kPackRecordsOffset + extent_.begin,
             fmt::format("expected 0 to {} entries of '{}', found {}", declared.shape[0],
                         declared.name, length));
    }
    const auto entry = bytes_of(declared) / static_cast<std::size_t>(declared.shape[0]);
    sample.refer_varying(field, bytes(static_cast<std::size_t>(length) * entry), length);
  }

  void picture(std::size_t field, const Field& declared, Sample& sample) {
    struct Extents {
      std::uint32_t height, width;
    };
    const auto extents = number<Extents>();
    const auto pixels = std::uint64_t{extents.height} * extents.width;  // cannot overflow
    const auto count = static_cast<std::uint64_t>(declared.shape[2]);
    if (pixels == 0 || pixels > pack_.records_.size()) {
      refuse(pack_.where_, kPackRecordsOffset + extent_.begin,
             fmt::format("expected a picture, found one of {} x {} pixels", extents.height,
                         extents.width));
    }
    sample.refer_image(field, reinterpret_cast<const std::uint8_t*>(bytes(pixels * count)),
                       {extents.height, extents.width});
  }

  void stored(std::size_t field, Sample& sample) {
    const auto count = number<std::uint64_t>();
    const auto* const data = bytes(count);
    decode_image({reinterpret_cast<const std::uint8_t*>(data), static_cast<std::size_t>(count)},
                 pack_.where_, [&](ImageSize size) { return sample.write_image(field, size); });
  }

  const PackDataset& pack_;
  Extent extent_;
};

std::shared_ptr<const PackDataset> PackDataset::open(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    throw Error(ErrorKind::Data, fmt::format("{}: expected a pack, found no file", path),
                "make one: lockstep data pack");
  }
  auto file = std::make_shared<const MappedFile>(path);
  return open(path, file->bytes(), file);
}

std::shared_ptr<const PackDataset> PackDataset::open(std::string where,
                                                     std::span<const std::byte> bytes,
                                                     std::shared_ptr<const void> owner) {
  const auto preamble = read_preamble(where, bytes);
  auto footer = read_footer(where, bytes, preamble);
  // The constructor is private.
  std::shared_ptr<PackDataset> pack(
      new PackDataset(std::move(where), bytes, std::move(owner), std::move(footer)));
  pack->records_ = bytes.subspan(kPackRecordsOffset, preamble.records_bytes);
  pack->checksums_ = table_in(pack->where_, bytes, pack->footer_.blocks, "checksums of blocks");
  if (pack->footer_.record_bytes == 0) {
    pack->begins_ = table_in(pack->where_, bytes, pack->footer_.index, "an index");
  }
  pack->check_tables();
  pack->is_good_ = std::vector<std::atomic<bool>>(pack->checksums_.size());
  return pack;
}

PackDataset::PackDataset(std::string where, std::span<const std::byte> bytes,
                         std::shared_ptr<const void> owner, PackFooter footer)
    : Dataset(footer.fields, footer.class_names),
      where_(std::move(where)),
      bytes_(bytes),
      owner_(std::move(owner)),
      footer_(std::move(footer)) {}

void PackDataset::check_tables() const {
  const auto blocks = (records_.size() + kPackBlockBytes - 1) / kPackBlockBytes;
  if (checksums_.size() != blocks) {
    refuse(where_, footer_.blocks.offset,
           fmt::format("expected checksums of {} blocks, found {}", blocks, checksums_.size()));
  }
  if (footer_.stores_files &&
      (fields().size() != 2 || fields()[0].kind != FieldKind::AnySizeImage ||
       fields()[0].shape[2] != 3)) {
    refuse(
        where_, footer_.blocks.offset,
        fmt::format("expected stored files to be RGB pictures, found {}", describe(fields()[0])));
  }
  const auto samples = static_cast<std::uint64_t>(footer_.samples);
  if (footer_.samples < 0 || samples > records_.size()) {
    refuse(where_, kPackRecordsOffset,
           fmt::format("expected {} records, found {} bytes", footer_.samples, records_.size()));
  }
  if (footer_.record_bytes == 0) return check_index();
  if (footer_.record_bytes != fixed_record_bytes(fields()) ||
      records_.size() / footer_.record_bytes != samples ||
      records_.size() % footer_.record_bytes != 0) {
    refuse(where_, kPackRecordsOffset,
           fmt::format("expected {} records of {} bytes, found {} bytes in all", samples,
                       fixed_record_bytes(fields()), records_.size()));
  }
}

void PackDataset::check_index() const {
  bool is_sound = begins_.size() == static_cast<std::uint64_t>(footer_.samples) + 1 &&
                  begins_.front() == 0 && begins_.back() == records_.size();
  for (std::size_t i = 1; is_sound && i < begins_.size(); ++i) {
    is_sound = begins_[i] >= begins_[i - 1];
  }
  if (is_sound) return;
  refuse(where_, footer_.index.offset,
         fmt::format("expected an ascending index of {} records in {} bytes, found another",
                     footer_.samples, records_.size()));
}

void PackDataset::sample(std::int64_t index, Sample& sample) const {
  const auto extent = record(index);
  verify_blocks(extent);
  RecordReader reader(*this, extent);
  for (std::size_t field = 0; field < fields().size(); ++field) reader.field(field, sample);
  reader.check_end();
}

std::string PackDataset::source_of(std::int64_t index) const {
  return fmt::format("{}, byte {}", where_, kPackRecordsOffset + record(index).begin);
}

void PackDataset::verify() const {
  for (std::uint64_t block = 0; block < checksums_.size(); ++block) verify_block(block);
}

PackDataset::Extent PackDataset::record(std::int64_t index) const {
  if (index < 0 || index >= footer_.samples) {
    throw Error(ErrorKind::Options, fmt::format("{}: expected one of {} samples, found {}", where_,
                                                footer_.samples, index));
  }
  const auto i = static_cast<std::size_t>(index);
  if (footer_.record_bytes == 0) return {begins_[i], begins_[i + 1]};
  return {i * footer_.record_bytes, (i + 1) * footer_.record_bytes};
}

void PackDataset::verify_blocks(Extent extent) const {
  if (extent.begin == extent.end) return;
  for (auto block = extent.begin / kPackBlockBytes; block <= (extent.end - 1) / kPackBlockBytes;
       ++block) {
    if (!is_good_[block].load(std::memory_order_relaxed)) verify_block(block);
  }
}

void PackDataset::verify_block(std::uint64_t block) const {
  const auto begin = block * kPackBlockBytes;
  const auto bytes = records_.subspan(begin, std::min(kPackBlockBytes, records_.size() - begin));
  if (checksum_of(bytes) != checksums_[block]) {
    refuse(where_, kPackRecordsOffset + begin,
           fmt::format("expected {} bytes with the checksum {:016x}, found {:016x}", bytes.size(),
                       checksums_[block], checksum_of(bytes)));
  }
  is_good_[block].store(true, std::memory_order_relaxed);
}

}  // namespace lockstep::data
