#include "lockstep/data/pack/pack_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/partial_file.h"
#include "lockstep/data/sets/image_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Samples that each thread encodes before they are written, in order.
constexpr std::int64_t kSamplesPerTurn = 64;

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The file, written from front to back, with checksums of its blocks.
class PackFile {
 public:
  PackFile(int fd, std::string where) : fd_(fd), where_(std::move(where)) {}

  std::uint64_t offset() const { return offset_; }

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw io_error(where_);
      offset += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void append(std::span<const std::byte> bytes) {
    write_at(offset_, bytes);
    offset_ += bytes.size();
  }

  void seek(std::uint64_t offset) { offset_ = offset; }

 private:
  int fd_;
  std::string where_;
  std::uint64_t offset_ = 0;
};

/// Collects records into blocks, and writes and sums each block when it is full.
class RecordStream {
 public:
  explicit RecordStream(PackFile& file) : file_(file) {
    file_.seek(kPackRecordsOffset);
    block_.reserve(kPackBlockBytes);
  }

  void add(std::string_view record) {
    begins_.push_back(bytes_);
    bytes_ += record.size();
    while (!record.empty()) {
      const auto part = record.substr(0, kPackBlockBytes - block_.size());
      block_.append(part);
      record.remove_prefix(part.size());
      if (block_.size() == kPackBlockBytes) flush();
    }
  }

  void finish() {
    if (!block_.empty()) flush();
    begins_.push_back(bytes_);
  }

  std::uint64_t bytes() const { return bytes_; }
  const std::vector<std::uint64_t>& checksums() const { return checksums_; }
  /// Where each record begins, counted from the first, and the end of the last.
  const std::vector<std::uint64_t>& begins() const { return begins_; }

 private:
  void flush() {
    checksums_.push_back(checksum_of(text_bytes(block_)));
    file_.append(text_bytes(block_));
    block_.clear();
  }

  PackFile& file_;
  std::string block_;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> checksums_;
  std::vector<std::uint64_t> begins_;
};

void append_padded(std::string& record, const void* data, std::size_t bytes) {
  record.append(static_cast<const char*>(data), bytes);
  record.resize(padded(record.size()), '\0');
}

template <typename Number>
void append_number(std::string& record, Number number) {
  record.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_field(std::string& record, const Sample& sample, std::size_t field) {
  const auto& declared = sample.fields()[field];
  switch (declared.kind) {
    case FieldKind::Fixed:
      return append_padded(record, sample.data(field), bytes_of(declared));
    case FieldKind::Varying: {
      const auto length = sample.length(field);
      append_number<std::int64_t>(record, length);
      const auto entry = bytes_of(declared) / static_cast<std::size_t>(declared.shape[0]);
      return append_padded(record, sample.data(field), static_cast<std::size_t>(length) * entry);
    }
    case FieldKind::AnySizeImage: {
      const auto image = sample.image(field);
      append_number(record, static_cast<std::uint32_t>(image.size.height));
      append_number(record, static_cast<std::uint32_t>(image.size.width));
      return append_padded(
          record, image.pixels,
          static_cast<std::size_t>(image.size.height * image.size.width * image.channels));
    }
  }
}

const ImageFolder& as_files(const Dataset& set) {
  if (const auto* const folder = dynamic_cast<const ImageFolder*>(&set)) return *folder;
  throw Error(ErrorKind::Options,
              "pack: stored files were asked for, and this set has no file for each picture",
              "leave --as-stored out");
}

/// Turns samples into records, on several threads.
class Encoder {
 public:
  Encoder(const Dataset& set, const PackOptions& options)
      : set_(set), files_(options.stores_files ? &as_files(set) : nullptr) {
    for (int i = 0; i < std::max(1, options.threads); ++i) samples_.emplace_back(set.fields());
  }

  std::int64_t samples_per_turn() const { return kSamplesPerTurn * std::ssize(samples_); }

  /// Records of samples [first, first + count). Throws what the first of them throws that cannot be
  /// encoded.
  std::vector<std::string> encode(std::int64_t first, std::int64_t count) {
    std::vector<std::string> records(static_cast<std::size_t>(count));
    std::vector<std::exception_ptr> failures(records.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t thread = 0; thread < samples_.size(); ++thread) {
        threads.emplace_back([&, thread] {
          for (auto i = thread; i < records.size(); i += samples_.size()) {
            try {
              records[i] = encode_one(first + static_cast<std::int64_t>(i), samples_[thread]);
            } catch (...) {
              failures[i] = std::current_exception();
              return;
            }
          }
        });
      }
    }
    for (std::size_t i = 0; i < failures.size(); ++i) {
      if (failures[i]) rethrow(failures[i], first + static_cast<std::int64_t>(i));
    }
    return records;
  }

 private:
  [[noreturn]] void rethrow(const std::exception_ptr& failure, std::int64_t index) const {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      const auto source = set_.source_of(index);
      throw Error(error.kind(),
                  fmt::format("pack: sample {}{}: {}", index,
                              source.empty() ? "" : fmt::format(" ({})", source), error.what()),
                  error.hint());
    }
  }

  std::string encode_one(std::int64_t index, Sample& sample) const {
    std::string record;
    if (files_ != nullptr) {
      const auto bytes = files_->stored_bytes(index);
      append_number<std::uint64_t>(record, bytes.size());
      append_padded(record, bytes.data(), bytes.size());
      append_number<std::int64_t>(record, files_->label(index));
      return record;
    }
    sample.clear();
    set_.sample(index, sample);
    sample.check_complete();
    for (std::size_t field = 0; field < sample.fields().size(); ++field) {
      append_field(record, sample, field);
    }
    return record;
  }

  const Dataset& set_;
  const ImageFolder* files_;  ///< where pictures stay the files that they are
  std::vector<Sample> samples_;
};

PackTable append_table(PackFile& file, const std::vector<std::uint64_t>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  const PackTable table{file.offset(), numbers.size(), checksum_of(bytes)};
  file.append(bytes);
  return table;
}

void write_records(RecordStream& records, const Dataset& set, const PackOptions& options) {
  Encoder encoder(set, options);
  for (std::int64_t first = 0; first < set.size(); first += encoder.samples_per_turn()) {
    const auto count = std::min(encoder.samples_per_turn(), set.size() - first);
    for (const auto& record : encoder.encode(first, count)) records.add(record);
    if (options.progress) options.progress(first + count);
  }
  records.finish();
}

}  // namespace

void write_pack(const fs::path& path, const Dataset& set, const PackOptions& options) {
  PartialFile file(path);
  write_pack(file.fd(), file.path(), set, options);
  file.publish();
}

void write_pack(int fd, const std::string& where, const Dataset& set, const PackOptions& options) {
  PackFile file(fd, where);
  RecordStream records(file);
  write_records(records, set, options);

  PackFooter footer{.name = options.name,
                    .fields = set.fields(),
                    .class_names = set.class_names(),
                    .samples = set.size(),
                    .record_bytes = options.stores_files ? 0 : fixed_record_bytes(set.fields()),
                    .stores_files = options.stores_files,
                    .is_verified = options.is_verified,
                    .differing = options.differing,
                    .fingerprint = options.fingerprint,
                    .blocks = {},
                    .index = {}};
  file.seek(padded(file.offset()));
  footer.blocks = append_table(file, records.checksums());
  if (footer.record_bytes == 0) footer.index = append_table(file, records.begins());
  const auto json = to_json(footer);

  PackPreamble preamble{.file_bytes = file.offset() + json.size(),
                        .records_bytes = records.bytes(),
                        .footer_offset = file.offset(),
                        .footer_bytes = json.size(),
                        .footer_checksum = checksum_of(text_bytes(json))};
  preamble.checksum = checksum_of(preamble);
  file.append(text_bytes(json));
  file.write_at(0, std::as_bytes(std::span(&preamble, 1)));
}

}  // namespace lockstep::data
