#include "lockstep/weights/zip_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "lockstep/weights/zip_layout.h"

namespace lockstep::weights {
namespace {

using data::as_text;
using data::Bytes;
using data::damaged;
using data::printable;

constexpr const char* kGetAgain = "the file may be cut off or damaged: get it again";

std::uint64_t little_endian(Bytes bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) number |= std::uint64_t{bytes[i]} << (8 * i);
  return number;
}

/// The extra field of one kind; nothing if there is none.
Bytes find_extra(Bytes extra, std::uint16_t kind) {
  while (extra.size() >= 4) {
    const auto size = static_cast<std::size_t>(little_endian(extra.subspan(2, 2)));
    if (size > extra.size() - 4) break;
    if (little_endian(extra.first(2)) == kind) return extra.subspan(4, size);
    extra = extra.subspan(4 + size);
  }
  return {};
}

}  // namespace

bool is_zip(Bytes file) noexcept {
  return file.size() >= 4 && little_endian(file.first(4)) == zip::kLocalSignature;
}

ZipReader::ZipReader(Bytes file, std::string_view where) : file_(file), where_(where) {
  read_directory(find_directory());
}

/// Numbers of the file are read where they stand; beyond its end is an error like any other.
std::uint64_t ZipReader::number(std::size_t at, std::size_t bytes) const {
  if (at > file_.size() || bytes > file_.size() - at) {
    throw damaged(where_, at, fmt::format("{} more bytes of a zip file", bytes),
                  fmt::format("the end of the file at byte {}", file_.size()), kGetAgain);
  }
  return little_endian(file_.subspan(at, bytes));
}

ZipReader::Directory ZipReader::find_directory() const {
  // The record that ends the file may be followed by a comment, which tells its length.
  constexpr std::size_t kMostComment = 0xffff;
  const auto size = file_.size();
  for (std::size_t back = zip::kEndBytes; back <= std::min(size, zip::kEndBytes + kMostComment);
       ++back) {
    const auto at = size - back;
    if (number(at, 4) != zip::kEndSignature) continue;
    if (number(at + 20, 2) != back - zip::kEndBytes) continue;
    const Directory found{number(at + 16, 4), number(at + 12, 4), number(at + 10, 2)};
    const bool is_large = found.begin == zip::kSeeExtra32 || found.size == zip::kSeeExtra32 ||
                          found.entries == zip::kSeeExtra16;
    return is_large ? find_directory64(at) : found;
  }
  throw damaged(where_, size, "the directory that ends a zip file", "none", kGetAgain);
}

ZipReader::Directory ZipReader::find_directory64(std::size_t end_at) const {
  if (end_at < zip::kLocator64Bytes ||
      number(end_at - zip::kLocator64Bytes, 4) != zip::kLocator64Signature) {
    throw damaged(where_, end_at, "the directory of a large zip file before it", "none", kGetAgain);
  }
  const auto at = number(end_at - zip::kLocator64Bytes + 8, 8);
  if (number(at, 4) != zip::kEnd64Signature) {
    throw damaged(where_, at, "the directory of a large zip file", "something else", kGetAgain);
  }
  return {number(at + 48, 8), number(at + 40, 8), number(at + 32, 8)};
}

void ZipReader::read_directory(const Directory& directory) {
  if (directory.begin > file_.size() || directory.size > file_.size() - directory.begin) {
    throw damaged(where_, directory.begin,
                  fmt::format("a zip directory of {} bytes", directory.size),
                  fmt::format("the end of the file at byte {}", file_.size()), kGetAgain);
  }
  auto at = static_cast<std::size_t>(directory.begin);
  const auto end = at + static_cast<std::size_t>(directory.size);
  while (at < end) {
    if (number(at, 4) != zip::kCentralSignature) {
      throw damaged(where_, at, "an entry of the zip directory", "something else", kGetAgain);
    }
    const auto name_bytes = static_cast<std::size_t>(number(at + 28, 2));
    const auto extra_bytes = static_cast<std::size_t>(number(at + 30, 2));
    const auto comment_bytes = static_cast<std::size_t>(number(at + 32, 2));
    const auto bytes = zip::kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    if (bytes > end - at) {
      throw damaged(where_, at, fmt::format("an entry of {} bytes", bytes),
                    fmt::format("the end of the zip directory at byte {}", end), kGetAgain);
    }
    const auto name = as_text(file_.subspan(at + zip::kCentralBytes, name_bytes));
    add_entry(at, name, file_.subspan(at + zip::kCentralBytes + name_bytes, extra_bytes));
    at += bytes;
  }
  if (entries_.size() != directory.entries || entries_.empty()) {
    throw damaged(where_, directory.begin,
                  fmt::format("{} entries of different names in the zip directory",
                              std::max<std::uint64_t>(1, directory.entries)),
                  fmt::format("{}", entries_.size()), kGetAgain);
  }
}

void ZipReader::add_entry(std::size_t at, std::string_view name, Bytes extra) {
  const auto what = fmt::format("entry '{}'", printable(name));
  Entry entry{.size = number(at + 24, 4),
              .header_at = number(at + 42, 4),
              .crc = static_cast<std::uint32_t>(number(at + 16, 4)),
              .flags = static_cast<std::uint16_t>(number(at + 8, 2)),
              .method = static_cast<std::uint16_t>(number(at + 10, 2))};
  auto packed_size = number(at + 20, 4);
  auto large = find_extra(extra, zip::kExtra64);
  for (auto* const value : {&entry.size, &packed_size, &entry.header_at}) {
    if (*value != zip::kSeeExtra32) continue;
    if (large.size() < 8) throw damaged(where_, at, what + " with 64-bit numbers", "none");
    *value = little_endian(large.first(8));
    large = large.subspan(8);
  }
  // Entries that share bytes would make a small file as costly to check as a huge one.
  total_bytes_ += std::min<std::uint64_t>(packed_size, file_.size() + 1);
  const bool is_contradiction = entry.method == zip::kStored && packed_size != entry.size;
  if (is_contradiction || total_bytes_ > file_.size()) {
    throw damaged(where_, at, what + " to fit into the file", fmt::format("{} bytes", entry.size),
                  kGetAgain);
  }
  if (entries_.empty()) folder_ = name.substr(0, name.find('/') + 1);
  entries_.emplace(name, entry);
}

bool ZipReader::has(std::string_view name) const {
  return entries_.contains(folder_ + std::string(name));
}

bool ZipReader::has_folder(std::string_view prefix) const {
  const auto found = entries_.lower_bound(folder_ + std::string(prefix));
  return found != entries_.end() && found->first.starts_with(folder_ + std::string(prefix));
}

Bytes ZipReader::read(std::string_view name) const {
  const auto full_name = folder_ + std::string(name);
  const auto found = entries_.find(full_name);
  if (found == entries_.end()) {
    throw Error(ErrorKind::Data, fmt::format("{}: expected an entry '{}' in the zip file, found "
                                             "none",
                                             where_, printable(full_name)));
  }
  check_readable(full_name, found->second);
  const auto content = content_of(full_name, found->second);
  const auto crc = ::crc32_z(0, content.data(), content.size());
  if (crc != found->second.crc) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: entry '{}': expected the checksum {:08x}, found {:08x}", where_,
                            printable(full_name), found->second.crc, crc),
                "the file is damaged, or was saved with "
                "torch.serialization.set_crc32_options(False)");
  }
  return content;
}

void ZipReader::check_readable(const std::string& name, const Entry& entry) const {
  const auto what = fmt::format("{}: expected entry '{}' to be", where_, printable(name));
  if ((entry.flags & zip::kEncrypted) != 0) {
    throw Error(ErrorKind::Data, what + " readable, found that it is encrypted");
  }
  if (entry.method != zip::kStored) {
    throw Error(ErrorKind::Data,
                fmt::format("{} stored as it is, as PyTorch writes it, found packing method {}",
                            what, entry.method),
                "unzip the file and zip it again with `zip -0`, or save it again from PyTorch");
  }
}

Bytes ZipReader::content_of(const std::string& name, const Entry& entry) const {
  const auto what = fmt::format("entry '{}'", printable(name));
  const auto at = static_cast<std::size_t>(std::min<std::uint64_t>(entry.header_at, file_.size()));
  if (number(at, 4) != zip::kLocalSignature) {
    throw damaged(where_, at, what, "something else", kGetAgain);
  }
  const auto name_bytes = static_cast<std::size_t>(number(at + 26, 2));
  const auto begin = at + zip::kLocalBytes + name_bytes + number(at + 28, 2);
  if (begin > file_.size() || entry.size > file_.size() - begin) {
    throw damaged(where_, begin, fmt::format("{} bytes of {}", entry.size, what),
                  fmt::format("the end of the file at byte {}", file_.size()), kGetAgain);
  }
  // Other readers go by this one: a file that says two things says nothing.
  const auto name_here = as_text(file_.subspan(at + zip::kLocalBytes, name_bytes));
  if (name_here != name) {
    throw damaged(where_, at, what, fmt::format("'{}'", printable(name_here)), kGetAgain);
  }
  return file_.subspan(begin, static_cast<std::size_t>(entry.size));
}

}  // namespace lockstep::weights
