#include "lockstep/weights/digest_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <span>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/partial_file.h"
#include "lockstep/data/formats/bytes.h"

namespace lockstep::weights {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr const char* kVersionKey = "lockstep_digests";
constexpr std::size_t kDigestDigits = 16;
constexpr std::size_t kLossDigits = 8;

/// One line. What is not UTF-8 (a path, say) must not end a training.
std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string line_of(const DigestLogHeader& header) {
  Json json{{kVersionKey, kVersion},
            {"replicas", header.replicas},
            {"threads_per_device", header.threads_per_device}};
  for (const auto& [key, value] : header.facts) json.emplace(key, value);
  return to_line(json);
}

std::string line_of(const DigestStep& step) {
  auto bits = Json::array();
  for (const float loss : step.losses) {
    bits.push_back(fmt::format("{:08x}", std::bit_cast<std::uint32_t>(loss)));
  }
  auto tensors = Json::object();
  for (const auto& [name, digest] : step.tensors) tensors[name] = digest;
  return to_line({{"step", step.step},
                  {"loss", step.losses},
                  {"loss_bits", std::move(bits)},
                  {"tensors", std::move(tensors)}});
}

Error refused(const std::string& where, std::string_view expected, std::string_view found) {
  return {ErrorKind::Data, fmt::format("{}: expected {}, found {}", where, expected, found)};
}

/// A part of a line, fit for a message.
std::string shown(const Json& json) {
  return data::printable(json.dump(-1, ' ', false, Json::error_handler_t::replace), 40);
}

Json parse_object(const std::string& text, const std::string& where) {
  auto json = Json::parse(text, nullptr, false);
  if (json.is_object()) return json;
  throw refused(where, "an object of JSON", fmt::format("'{}'", data::printable(text, 40)));
}

const Json& member(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) throw refused(where, fmt::format("a '{}'", key), "none");
  return *found;
}

std::int64_t whole_number(const Json& object, const char* key, std::int64_t least,
                          const std::string& where) {
  const auto& value = member(object, key, where);
  if (value.is_number_integer() && value >= least && value <= INT64_MAX) {
    return value.get<std::int64_t>();
  }
  throw refused(where, fmt::format("a whole number of at least {} as '{}'", least, key),
                shown(value));
}

bool is_hex(const Json& value, std::size_t digits) {
  const auto* const text = value.get_ptr<const std::string*>();
  return text != nullptr && text->size() == digits &&
         text->find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::vector<float> losses_of(const Json& line, const std::string& where) {
  const auto& bits = member(line, "loss_bits", where);
  if (!bits.is_array()) throw refused(where, "a list as 'loss_bits'", shown(bits));
  const auto& numbers = member(line, "loss", where);
  if (!numbers.is_array() || numbers.size() != bits.size()) {
    throw refused(where, fmt::format("a list of {} numbers as 'loss'", bits.size()),
                  shown(numbers));
  }
  std::vector<float> losses;
  for (const auto& value : bits) {
    if (!is_hex(value, kLossDigits)) throw refused(where, "losses of 8 hex digits", shown(value));
    const auto number = std::stoul(value.get<std::string>(), nullptr, 16);
    losses.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(number)));
  }
  return losses;
}

std::map<std::string, std::string> digests_of(const Json& line, const std::string& where) {
  const auto& tensors = member(line, "tensors", where);
  if (!tensors.is_object()) throw refused(where, "an object as 'tensors'", shown(tensors));
  std::map<std::string, std::string> digests;
  for (const auto& [name, digest] : tensors.items()) {
    if (!is_hex(digest, kDigestDigits)) {
      throw refused(where, fmt::format("16 hex digits for '{}'", data::printable(name)),
                    shown(digest));
    }
    digests.emplace(name, digest.get<std::string>());
  }
  return digests;
}

DigestStep parse_step(const std::string& text, const std::string& where) {
  const auto line = parse_object(text, where);
  return {whole_number(line, "step", 0, where), losses_of(line, where), digests_of(line, where)};
}

DigestLogHeader parse_header(const std::string& text, const std::string& where) {
  const auto line = parse_object(text, where);
  if (const auto version = whole_number(line, kVersionKey, 1, where); version != kVersion) {
    throw refused(where, fmt::format("digests of version {}", kVersion),
                  fmt::format("version {}", version));
  }
  const auto count = [&](const char* key) {
    return static_cast<int>(std::min<std::int64_t>(whole_number(line, key, 1, where), INT32_MAX));
  };
  DigestLogHeader header{count("replicas"), count("threads_per_device"), {}};
  for (const auto& [key, value] : line.items()) {
    if (key == kVersionKey || key == "replicas" || key == "threads_per_device") continue;
    header.facts.emplace(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return header;
}

/// Whether a file ends before its first line does.
bool has_no_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::getline(file, line);
  return file.eof();
}

void replace(const std::string& path, const std::string& text) {
  PartialFile file(path);
  file.append(std::as_bytes(std::span(text)));
  file.publish();
}

}  // namespace

DigestLogWriter::DigestLogWriter(const std::filesystem::path& path, const DigestLogHeader& header,
                                 std::optional<std::int64_t> after)
    : path_(path) {
  if (after) keep_until(*after, header);
  const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | (after ? 0 : O_CREAT | O_TRUNC);
  file_.reset(::open(path_.c_str(), flags, 0666));
  if (!file_) throw io_error("write " + path_);
  if (!after) write_line(line_of(header));
}

void DigestLogWriter::keep_until(std::int64_t last, const DigestLogHeader& header) {
  auto lines = line_of(header);
  if (std::filesystem::exists(path_) && !has_no_line(path_)) {
    last_step_ = 0;
    DigestLogReader reader(path_);
    for (auto step = reader.next(); step && step->step <= last; step = reader.next()) {
      lines += line_of(*step);
      last_step_ = step->step;
    }
  }
  replace(path_, lines);
}

void DigestLogWriter::append(const DigestStep& step) {
  write_line(line_of(step));
}

void DigestLogWriter::write_line(const std::string& line) {
  for (std::size_t written = 0; written < line.size();) {
    const auto count = ::write(file_.get(), line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error("write " + path_);
    written += static_cast<std::size_t>(count);
  }
}

DigestLogReader::DigestLogReader(const std::filesystem::path& path) : path_(path) {
  errno = 0;
  file_.open(path_, std::ios::binary);
  if (!file_) throw io_error("read " + path_);
  const auto line = next_line();
  if (!line) throw refused(path_, "a digest log", "an empty file");
  header_ = parse_header(line->text, where());
}

std::string DigestLogReader::where() const {
  return fmt::format("{}: line {}", path_, line_number_);
}

std::optional<DigestLogReader::Line> DigestLogReader::next_line() {
  Line line;
  errno = 0;
  std::getline(file_, line.text);
  if (file_.bad()) throw io_error("read " + path_);  // as where it is a folder
  line.is_cut = file_.eof();
  if (line.text.empty() && line.is_cut) return std::nullopt;
  ++line_number_;
  return line;
}

std::optional<DigestStep> DigestLogReader::next() {
  const auto line = next_line();
  if (!line) return std::nullopt;
  try {
    auto step = parse_step(line->text, where());
    if (last_step_ && step.step <= *last_step_) {
      throw refused(where(), fmt::format("a step after {}", *last_step_),
                    fmt::format("step {}", step.step));
    }
    last_step_ = step.step;
    return step;
  } catch (const Error&) {
    if (line->is_cut) return std::nullopt;
    throw;
  }
}

}  // namespace lockstep::weights
