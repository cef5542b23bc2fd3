#include "lockstep/weights/zip_writer.h"

#include <zlib.h>

#include <algorithm>

#include "lockstep/weights/zip_layout.h"

namespace lockstep::weights {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::uint16_t kVersion = 20;     // a reader of plain zip files suffices
constexpr std::uint16_t kVersion64 = 45;   // it has to know 64-bit records
constexpr std::uint16_t kFirstDay = 0x21;  // 1980-01-01: the same tensors give the same file

class Record {
 public:
  Record& u16(std::uint64_t number) { return put(number, 2); }
  Record& u32(std::uint64_t number) { return put(number, 4); }
  Record& u64(std::uint64_t number) { return put(number, 8); }
  Record& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  Record& put(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(number >> (8 * i));
    return *this;
  }

  std::string bytes_;
};

/// Zeros in an extra field of their own, so that what follows it begins at a multiple of 64.
std::string padding_before(std::uint64_t begin) {
  constexpr std::size_t kHeader = 4;
  const auto rest = (begin + kHeader) % kAlignment;
  const auto bytes = rest == 0 ? 0 : kAlignment - rest;
  return Record().u16(zip::kExtraPadding).u16(bytes).text(std::string(bytes, '\0')).take();
}

}  // namespace

bool ZipWriter::needs_64(std::uint64_t number) const {
  return records_ == Records64::Everywhere || number >= zip::kSeeExtra32;
}

void ZipWriter::append(std::string_view text) {
  file_.append(std::as_bytes(std::span(text.data(), text.size())));
  offset_ += text.size();
}

void ZipWriter::add(std::string_view name, std::span<const std::byte> content) {
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  entries_.push_back({std::string(name), content.size(), offset_, static_cast<std::uint32_t>(crc)});
  append(local_header(entries_.back()));
  file_.append(content);
  offset_ += content.size();
}

std::string ZipWriter::local_header(const Entry& entry) const {
  const bool is_large = needs_64(entry.size);
  std::string extra;
  if (is_large) extra = Record().u16(zip::kExtra64).u16(16).u64(entry.size).u64(entry.size).take();
  extra += padding_before(offset_ + zip::kLocalBytes + entry.name.size() + extra.size());
  const auto size = is_large ? zip::kSeeExtra32 : entry.size;
  return Record()
      .u32(zip::kLocalSignature)
      .u16(is_large ? kVersion64 : kVersion)
      .u16(zip::kUtf8Name)
      .u16(zip::kStored)
      .u16(0)
      .u16(kFirstDay)
      .u32(entry.crc)
      .u32(size)
      .u32(size)
      .u16(entry.name.size())
      .u16(extra.size())
      .text(entry.name)
      .text(extra)
      .take();
}

std::string ZipWriter::central_header(const Entry& entry) const {
  const bool has_large_size = needs_64(entry.size);
  const bool has_large_offset = needs_64(entry.header_at);
  Record large;
  if (has_large_size) large.u64(entry.size).u64(entry.size);
  if (has_large_offset) large.u64(entry.header_at);
  const auto numbers = large.take();
  std::string extra;
  if (!numbers.empty()) {
    extra = Record().u16(zip::kExtra64).u16(numbers.size()).text(numbers).take();
  }
  const auto size = has_large_size ? zip::kSeeExtra32 : entry.size;
  return Record()
      .u32(zip::kCentralSignature)
      .u16(kVersion64)
      .u16(extra.empty() ? kVersion : kVersion64)
      .u16(zip::kUtf8Name)
      .u16(zip::kStored)
      .u16(0)
      .u16(kFirstDay)
      .u32(entry.crc)
      .u32(size)
      .u32(size)
      .u16(entry.name.size())
      .u16(extra.size())
      .u16(0)  // comment
      .u16(0)  // disk
      .u16(0)  // text or not
      .u32(0)  // permissions
      .u32(has_large_offset ? zip::kSeeExtra32 : entry.header_at)
      .text(entry.name)
      .text(extra)
      .take();
}

void ZipWriter::finish() {
  const auto begin = offset_;
  for (const auto& entry : entries_) append(central_header(entry));
  const auto size = offset_ - begin;
  const auto count = entries_.size();
  const auto end = offset_;
  if (needs_64(begin) || needs_64(size) || count >= zip::kSeeExtra16) {
    append(Record()
               .u32(zip::kEnd64Signature)
               .u64(zip::kEnd64Bytes - 12)  // what follows this number
               .u16(kVersion64)
               .u16(kVersion64)
               .u32(0)
               .u32(0)
               .u64(count)
               .u64(count)
               .u64(size)
               .u64(begin)
               .take());
    append(Record().u32(zip::kLocator64Signature).u32(0).u64(end).u32(1).take());
  }
  const auto entries = std::min<std::uint64_t>(count, zip::kSeeExtra16);
  append(Record()
             .u32(zip::kEndSignature)
             .u16(0)
             .u16(0)
             .u16(entries)
             .u16(entries)
             .u32(needs_64(size) ? zip::kSeeExtra32 : size)
             .u32(needs_64(begin) ? zip::kSeeExtra32 : begin)
             .u16(0)
             .take());
}

}  // namespace lockstep::weights
