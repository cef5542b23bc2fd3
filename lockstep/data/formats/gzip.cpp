#include "lockstep/data/formats/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

namespace lockstep::data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
/// zlib: the largest window, and the gzip wrapping rather than its own.
constexpr int kWindowOfGzip = 15 + 16;
constexpr std::size_t kTrailerBytes = 8;
/// Deflate cannot do better than this.
constexpr std::size_t kMostCompression = 1032;

/// What the last four bytes say about the unpacked size: a good guess, but no more.
std::size_t guess_size(Bytes file, std::size_t most_bytes) {
  if (file.size() < kTrailerBytes) return 0;
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i) size |= std::size_t{file[file.size() - 4 + i]} << (8 * i);
  return std::min({size, most_bytes, file.size() * kMostCompression});
}

}  // namespace

struct GzipReader::Stream {
  z_stream z{};
  std::array<std::uint8_t, kBlockBytes> block;
};

bool is_gzip(Bytes file) noexcept {
  return file.size() >= 2 && file[0] == 0x1f && file[1] == 0x8b;
}

GzipReader::GzipReader(Bytes file, std::string_view where, std::size_t most_bytes)
    : file_(file), where_(where), most_bytes_(most_bytes), stream_(std::make_unique<Stream>()) {
  if (file.size() > std::numeric_limits<uInt>::max()) {
    throw damaged(where_, 0, "a gzip file below 4 GiB", fmt::format("{} bytes", file.size()));
  }
  if (!is_gzip(file)) {
    throw damaged(where_, 0, "a gzip file (1f 8b)", to_hex(file));
  }
  auto& z = stream_->z;
  z.next_in = const_cast<Bytef*>(file.data());  // zlib only reads there
  z.avail_in = static_cast<uInt>(file.size());
  if (::inflateInit2(&z, kWindowOfGzip) != Z_OK) throw std::bad_alloc();
  inside_member_ = true;
}

GzipReader::~GzipReader() {
  ::inflateEnd(&stream_->z);
}

std::size_t GzipReader::offset() const {
  return file_.size() - stream_->z.avail_in;
}

bool GzipReader::is_at_end() const {
  return !inside_member_ && stream_->z.avail_in == 0;
}

void GzipReader::begin_member() {
  const auto rest = file_.subspan(offset());
  if (!is_gzip(rest)) {
    throw damaged(where_, offset(), "the end of the file or another gzip member (1f 8b)",
                  to_hex(rest));
  }
  ::inflateReset(&stream_->z);
  inside_member_ = true;
}

void GzipReader::skip_padding() {
  const auto rest = file_.subspan(offset());
  if (std::all_of(rest.begin(), rest.end(), [](auto byte) { return byte == 0; })) {
    stream_->z.avail_in = 0;
  }
}

void GzipReader::check(int result) {
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  if (result == Z_BUF_ERROR) {
    throw damaged(where_, offset(), "more of the gzip file", "its end");
  }
  if (result != Z_OK && result != Z_STREAM_END) {
    throw damaged(where_, offset(), "sound gzip data",
                  stream_->z.msg != nullptr ? stream_->z.msg : "something else");
  }
}

Bytes GzipReader::next() {
  auto& z = stream_->z;
  while (!is_at_end()) {
    if (!inside_member_) begin_member();
    z.next_out = stream_->block.data();
    z.avail_out = static_cast<uInt>(stream_->block.size());
    const auto result = ::inflate(&z, Z_NO_FLUSH);
    check(result);
    if (result == Z_STREAM_END) {
      inside_member_ = false;
      skip_padding();
    }
    const auto count = stream_->block.size() - z.avail_out;
    unpacked_ += count;
    if (unpacked_ > most_bytes_) {
      throw damaged(where_, offset(), fmt::format("at most {} bytes once unpacked", most_bytes_),
                    "more");
    }
    if (count > 0) return Bytes(stream_->block.data(), count);
  }
  return {};
}

std::string unpack_gzip(Bytes file, std::string_view where, std::size_t most_bytes) {
  GzipReader reader(file, where, most_bytes);
  std::string content;
  content.reserve(guess_size(file, most_bytes));
  for (auto block = reader.next(); !block.empty(); block = reader.next()) {
    content.append(as_text(block));
  }
  return content;
}

}  // namespace lockstep::data
