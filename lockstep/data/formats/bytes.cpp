#include "lockstep/data/formats/bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "lockstep/base/file.h"

namespace lockstep::data {
namespace {

/// Reads until the memory is full or the file ends; how much that was.
std::size_t fill(const UniqueFd& file, char* memory, std::size_t size, const std::string& where) {
  std::size_t done = 0;
  while (done < size) {
    const auto count = ::read(file.get(), memory + done, size - done);
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error(where);
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Error too_large(const std::filesystem::path& path, std::string_view found) {
  return damaged(path.string(), kMostFileBytes,
                 fmt::format("a file of at most {} bytes", kMostFileBytes), found);
}

/// Where a file should end; one that holds nothing can claim any size.
std::size_t claimed_size(const UniqueFd& file, const std::filesystem::path& path,
                         const std::string& where) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw io_error(where);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > kMostFileBytes) throw too_large(path, fmt::format("{}", size));
  return size;
}

}  // namespace

Bytes as_bytes(std::string_view content) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(content.data()), content.size()};
}

std::string_view as_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Error damaged(std::string_view where, std::size_t offset, std::string_view expected,
              std::string_view found, std::string hint) {
  return Error(ErrorKind::Data,
               fmt::format("{}: at byte {}: expected {}, found {}", where, offset, expected, found),
               std::move(hint));
}

std::string to_hex(Bytes bytes, std::size_t most) {
  if (bytes.empty()) return "nothing";
  return fmt::format("{:02x}", fmt::join(bytes.first(std::min(most, bytes.size())), " "));
}

std::string printable(std::string_view text, std::size_t most) {
  std::string result(text.substr(0, most));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

void read_file_into(const std::filesystem::path& path, std::string& content) try {
  const auto where = "read " + path.string();
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw io_error(where);
  // One byte more than there should be, so that the end is seen without another round.
  content.resize(claimed_size(file, path, where) + 1);
  auto done = fill(file, content.data(), content.size(), where);
  while (done == content.size()) {  // a pipe, or a file that grows
    if (done > kMostFileBytes) throw too_large(path, "more");
    content.resize(std::min(2 * content.size(), kMostFileBytes + 1));
    done += fill(file, content.data() + done, content.size() - done, where);
  }
  content.resize(done);
} catch (const std::bad_alloc&) {
  throw Error(ErrorKind::Io, fmt::format("read {}: not enough memory for it", path.string()));
}

}  // namespace lockstep::data
