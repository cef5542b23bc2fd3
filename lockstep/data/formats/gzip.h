#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/data/formats/bytes.h"

namespace lockstep::data {

/// Whether a file begins as gzip files do.
bool is_gzip(Bytes file) noexcept;

/// Unpacks a gzip file in memory, a block at a time, checking sizes and checksums as it goes. The
/// file may have several members, as `cat a.gz b.gz` makes them, and zeros after the last, as tapes
/// and disks pad it.
///
/// Errors: `Data` where the file is damaged, cut off, followed by something else, or unpacks to
/// more than `most_bytes`: a small file can unpack to more than the memory that there is.
class GzipReader {
 public:
  GzipReader(Bytes file, std::string_view where, std::size_t most_bytes);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /// The next block, which stands until the next call; nothing once every member has been checked.
  Bytes next();

 private:
  struct Stream;

  std::size_t offset() const;
  bool is_at_end() const;
  void begin_member();
  void skip_padding();
  void check(int result);

  Bytes file_;
  std::string where_;
  std::size_t most_bytes_;
  std::size_t unpacked_ = 0;
  bool inside_member_ = false;
  std::unique_ptr<Stream> stream_;
};

/// A whole gzip file, unpacked.
std::string unpack_gzip(Bytes file, std::string_view where, std::size_t most_bytes);

}  // namespace lockstep::data
