#include "lockstep/monitor/export/tensorboard_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"
#include "lockstep/monitor/export/crc32c.h"
#include "lockstep/monitor/export/wire_message.h"

namespace lockstep::monitor {
namespace {

// The numbers of the fields stand in event.proto, summary.proto, tensor.proto and
// tensor_shape.proto of TensorFlow.
namespace event_field {
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kFileVersion = 3;
constexpr int kSummary = 5;
}  // namespace event_field
namespace summary_field {
constexpr int kValue = 1;
}
namespace value_field {
constexpr int kTag = 1;
constexpr int kSimpleValue = 2;
constexpr int kTensor = 8;
constexpr int kMetadata = 9;
}  // namespace value_field
namespace metadata_field {
constexpr int kPluginData = 1;
constexpr int kPluginName = 1;  // of the plugin data
constexpr int kDataClass = 4;
}  // namespace metadata_field
namespace tensor_field {
constexpr int kType = 1;
constexpr int kShape = 2;
constexpr int kDimension = 2;  // of the shape
constexpr int kSize = 1;       // of the dimension
constexpr int kStringValue = 8;
}  // namespace tensor_field
constexpr std::int64_t kStringType = 7;
constexpr std::int64_t kTensorClass = 2;

constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;

std::string to_record(const WireMessage& event) {
  const auto& message = event.bytes();
  std::string record;
  record.reserve(message.size() + 16);
  append_little_endian(record, message.size(), 8);
  append_little_endian(record, masked_crc32c(record), 4);
  record += message;
  append_little_endian(record, masked_crc32c(message), 4);
  return record;
}

WireMessage event_with(double wall_time, std::int64_t step, const WireMessage& value) {
  WireMessage summary;
  summary.add_message(summary_field::kValue, value);
  WireMessage event;
  event.add_double(event_field::kWallTime, wall_time)
      .add_integer(event_field::kStep, step)
      .add_message(event_field::kSummary, summary);
  return event;
}

WireMessage first_event(double wall_time) {
  WireMessage event;
  event.add_double(event_field::kWallTime, wall_time)
      .add_bytes(event_field::kFileVersion, "brain.Event:2");
  return event;
}

/// A list of one string.
WireMessage text_tensor(std::string_view text) {
  WireMessage dimension;
  dimension.add_integer(tensor_field::kSize, 1);
  WireMessage shape;
  shape.add_message(tensor_field::kDimension, dimension);
  WireMessage tensor;
  tensor.add_integer(tensor_field::kType, kStringType)
      .add_message(tensor_field::kShape, shape)
      .add_bytes(tensor_field::kStringValue, text);
  return tensor;
}

WireMessage text_metadata() {
  WireMessage plugin;
  plugin.add_bytes(metadata_field::kPluginName, "text");
  WireMessage metadata;
  metadata.add_message(metadata_field::kPluginData, plugin)
      .add_integer(metadata_field::kDataClass, kTensorClass);
  return metadata;
}

void check(std::string_view tag, std::int64_t step) {
  if (tag.empty() || !is_utf8(tag)) {
    throw Error(ErrorKind::Options,
                fmt::format("tensorboard: expected a tag in UTF-8, found {}",
                            tag.empty() ? "an empty one" : "other bytes"),
                "name the curve, as in train/loss");
  }
  if (step < 0) {
    throw Error(ErrorKind::Options,
                fmt::format("tensorboard: {}: expected a step of 0 or more, found {}", tag, step),
                "count steps from 0");
  }
}

void check_text(std::string_view tag, std::string_view text) {
  if (text.size() <= kMostTextBytes) return;
  throw Error(ErrorKind::Options,
              fmt::format("tensorboard: {}: expected a text of at most {} bytes, found {}", tag,
                          kMostTextBytes, text.size()),
              "write it to a file, and its name here");
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(ErrorKind::Io, "tensorboard: " + folder + ": " + error.message());
}

/// TensorBoard takes every file whose name holds "tfevents" and reads them in the order of their
/// names, so the time comes first. The number keeps two files of one second apart.
UniqueFd make_file(const std::string& folder, double now, std::string& path) {
  for (int number = 0;; ++number) {
    path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder,
                       static_cast<std::int64_t>(now), host_name(), ::getpid(), number);
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
    if (file) return file;
    if (errno != EEXIST) throw io_error("tensorboard: " + path);
  }
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::string& folder)
    : TensorBoardWriter(folder, unix_seconds) {}

TensorBoardWriter::TensorBoardWriter(const std::string& folder, WallClock clock)
    : clock_(std::move(clock)) {
  make_folder(folder);
  const auto now = clock_();
  file_ = std::make_unique<UniqueFd>(make_file(folder, now, path_));
  append(to_record(first_event(now)));
  if (failure_) throw Error(ErrorKind::Io, *failure_);
}

TensorBoardWriter::TensorBoardWriter(TensorBoardWriter&&) noexcept = default;
TensorBoardWriter& TensorBoardWriter::operator=(TensorBoardWriter&&) noexcept = default;
TensorBoardWriter::~TensorBoardWriter() = default;

void TensorBoardWriter::add_scalar(std::string_view tag, std::int64_t step, double value) {
  check(tag, step);
  WireMessage scalar;
  scalar.add_bytes(value_field::kTag, tag)
      .add_float(value_field::kSimpleValue, static_cast<float>(value));
  append(to_record(event_with(clock_(), step, scalar)));
}

void TensorBoardWriter::add_text(std::string_view tag, std::int64_t step, std::string_view text) {
  check(tag, step);
  check_text(tag, text);
  WireMessage value;
  value.add_bytes(value_field::kTag, tag)
      .add_message(value_field::kTensor, text_tensor(to_utf8(std::string(text))))
      .add_message(value_field::kMetadata, text_metadata());
  append(to_record(event_with(clock_(), step, value)));
}

void TensorBoardWriter::append(const std::string& record) noexcept {
  if (failure_) return;
  ssize_t written = 0;
  do {
    written = ::write(file_->get(), record.data(), record.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(record.size())) return;
  failure_ = io_error("tensorboard: " + path_).what();
  if (written <= 0) return;
  failure_ =
      "tensorboard: " + path_ + ": only a part of an event could be written; is the disk full?";
  // Readers stop at a broken record, and would not see what another process appends.
  const auto length = ::lseek(file_->get(), 0, SEEK_CUR);
  if (length >= written && ::ftruncate(file_->get(), length - written) != 0) return;
}

}  // namespace lockstep::monitor
