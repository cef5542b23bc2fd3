#include "lockstep/data/formats/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "lockstep/data/formats/gzip.h"

namespace lockstep::data {
namespace {

struct FreeArchive {
  void operator()(::archive* handle) const { ::archive_read_free(handle); }
};

/// Hands the tar to libarchive, unpacked by `GzipReader`: libarchive's own gzip filter does not
/// look at checksums.
class TarSource {
 public:
  TarSource(Bytes archive, std::string_view where, std::size_t most_bytes) : plain_(archive) {
    if (is_gzip(archive)) gzip_.emplace(archive, where, most_bytes);
  }

  bool is_packed() const { return gzip_.has_value(); }

  Bytes next() {
    if (gzip_) return gzip_->next();
    return std::exchange(plain_, Bytes{});
  }

  /// An exception may not pass through C: it waits here.
  std::exception_ptr failure;

 private:
  Bytes plain_;
  std::optional<GzipReader> gzip_;
};

la_ssize_t read_block(::archive* handle, void* source, const void** block) {
  auto& tar = *static_cast<TarSource*>(source);
  try {
    const auto bytes = tar.next();
    *block = bytes.data();
    return static_cast<la_ssize_t>(bytes.size());
  } catch (...) {
    tar.failure = std::current_exception();
    ::archive_set_error(handle, EIO, "unpacking failed");
    return -1;
  }
}

class TarReader {
 public:
  TarReader(Bytes archive, std::string_view where, const ArchiveOptions& options)
      : source_(archive, where, options.most_bytes),
        where_(where),
        options_(options),
        handle_(::archive_read_new()) {
    if (source_.is_packed()) where_ += ", unpacked";
    if (!handle_) throw std::bad_alloc();
    ::archive_read_support_format_tar(handle_.get());
    check(::archive_read_open(handle_.get(), &source_, nullptr, read_block, nullptr));
  }

  std::vector<ArchivedFile> read() {
    std::vector<ArchivedFile> files;
    ::archive_entry* entry = nullptr;
    while (true) {
      const auto result = ::archive_read_next_header(handle_.get(), &entry);
      if (result == ARCHIVE_EOF) break;
      check(result);
      const auto name = name_of(entry);
      if (::archive_entry_filetype(entry) != AE_IFREG || !options_.wanted(name)) continue;
      files.push_back({name, read_content(entry, name)});
    }
    drain();
    return files;
  }

 private:
  static std::string name_of(::archive_entry* entry) {
    const char* const name = ::archive_entry_pathname(entry);
    std::string_view text = name != nullptr ? name : "";
    while (text.starts_with("./")) text.remove_prefix(2);
    return std::string(text);
  }

  std::string read_content(::archive_entry* entry, const std::string& name) {
    const auto size = static_cast<std::size_t>(::archive_entry_size(entry));
    // A hole costs the tar nothing: a few bytes would fill all memory with zeros.
    if (::archive_entry_sparse_count(entry) > 0) {
      throw damaged(where_, offset(), fmt::format("a file '{}' without holes", printable(name)),
                    fmt::format("{} bytes of which some are not stored", size));
    }
    if (size > options_.most_bytes - std::min(options_.most_bytes, kept_bytes_)) {
      throw damaged(where_, offset(),
                    fmt::format("at most {} bytes once unpacked", options_.most_bytes),
                    fmt::format("a file '{}' of {} bytes", printable(name), size));
    }
    kept_bytes_ += size;
    std::string content;
    // The size is only a claim until the bytes are there: memory grows with what has been read.
    while (content.size() < size) {
      const auto begin = content.size();
      content.resize(std::min(size, std::max(kStepBytes, 2 * begin)));
      const auto count = read_some(content.data() + begin, content.size() - begin);
      content.resize(begin + count);
      if (count == 0) {
        throw damaged(where_, offset(), fmt::format("{} bytes of '{}'", size, printable(name)),
                      fmt::format("{}", content.size()));
      }
    }
    return content;
  }

  std::size_t read_some(char* memory, std::size_t size) {
    const auto count = ::archive_read_data(handle_.get(), memory, size);
    // Also where libarchive only warns, or would try again: there are no bytes either way.
    if (count < 0) throw_failure();
    return static_cast<std::size_t>(count);
  }

  /// The tar may end before the gzip file does, and that has its checksum at the end.
  void drain() {
    while (!source_.next().empty()) {
    }
  }

  std::size_t offset() const {
    return static_cast<std::size_t>(::archive_filter_bytes(handle_.get(), 0));
  }

  void check(int result) {
    if (source_.failure || result < ARCHIVE_WARN) throw_failure();
  }

  [[noreturn]] void throw_failure() {
    if (source_.failure) std::rethrow_exception(source_.failure);
    const char* const message = ::archive_error_string(handle_.get());
    throw damaged(where_, offset(), "a sound tar archive",
                  message != nullptr ? message : "something else");
  }

  static constexpr std::size_t kStepBytes = std::size_t{64} << 10;

  TarSource source_;
  std::string where_;
  const ArchiveOptions& options_;
  std::size_t kept_bytes_ = 0;
  std::unique_ptr<::archive, FreeArchive> handle_;
};

}  // namespace

std::vector<ArchivedFile> read_archive(Bytes archive, std::string_view where,
                                       const ArchiveOptions& options) {
  if (archive.empty()) throw damaged(where, 0, "a tar archive", "an empty file");
  return TarReader(archive, where, options).read();
}

}  // namespace lockstep::data
