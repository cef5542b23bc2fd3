#include "lockstep/checkpoint/manifest.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/data/formats/bytes.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;
using data::printable;

constexpr int kVersion = 1;
constexpr const char* kVersionKey = "lockstep_checkpoint";
constexpr std::size_t kDigestDigits = 16;
constexpr std::size_t kChecksumDigits = 32;

/// How the text ends: the digits stand at a fixed distance from the end, so that they are found
/// before anything is parsed.
constexpr std::string_view kBeforeChecksum = "  \"checksum\": \"";
constexpr std::string_view kNoChecksum = "0000000000000000";
constexpr std::string_view kAfterChecksum = "\"\n}\n";

/// What is not UTF-8 (a path, say) must not cost a checkpoint.
std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string checksum_of(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

std::size_t checksum_at(std::string_view text) {
  return text.size() - kAfterChecksum.size() - kNoChecksum.size();
}

/// JSON knows no such numbers. These are what Python's `float()` understands.
Json to_json(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

Json options_json(const Manifest& manifest) {
  auto json = Json::object();
  for (const auto& [name, value] : manifest.options) {
    if (json.emplace(name, value).second) continue;
    throw Error(ErrorKind::Bug,
                fmt::format("manifest: the option '{}' occurs twice", printable(name)));
  }
  return json;
}

Json metrics_json(const std::map<std::string, double>& metrics) {
  auto json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = to_json(value);
  return json;
}

Json history_json(const Manifest& manifest) {
  auto json = Json::array();
  for (const auto& entry : manifest.history) {
    json.push_back({{"fit", entry.fit},
                    {"epoch", entry.epoch},
                    {"training", metrics_json(entry.training)},
                    {"validation", metrics_json(entry.validation)}});
  }
  return json;
}

Json files_json(const Manifest& manifest) {
  auto json = Json::object();
  for (const auto& file : manifest.files) {
    json[file.name] = {{"bytes", file.bytes}, {"xxh3_128", file.checksum}};
  }
  return json;
}

Error refused(std::string_view where, std::string_view expected, std::string_view found) {
  return {ErrorKind::Data, fmt::format("{}: expected {}, found {}", where, expected, found)};
}

std::string shown(const Json& json) {
  if (json.is_structured()) return fmt::format("an {}", json.type_name());
  return printable(dumped(json, -1), 40);
}

void check_checksum(std::string_view text, std::string_view where) {
  const auto least = kBeforeChecksum.size() + kNoChecksum.size() + kAfterChecksum.size();
  const auto head = text.size() < least ? std::string_view() : text.substr(0, text.size() - least);
  const auto tail = text.substr(head.size());
  if (text.size() < least || !tail.starts_with(kBeforeChecksum) ||
      !tail.ends_with(kAfterChecksum)) {
    throw refused(where, "a manifest that ends with its checksum",
                  fmt::format("{} bytes that do not", text.size()));
  }
  const auto stored = text.substr(checksum_at(text), kNoChecksum.size());
  std::string zeroed(text);
  zeroed.replace(checksum_at(text), kNoChecksum.size(), kNoChecksum);
  const auto expected = checksum_of(zeroed);
  if (stored != expected) {
    throw refused(where, fmt::format("the checksum {}", expected),
                  fmt::format("'{}'", printable(stored)));
  }
}

/// JSON in which every name occurs once, and which is not nested deeper than ours.
Json parse_text(std::string_view text, std::string_view where) {
  constexpr int kMostLevels = 8;
  std::vector<std::set<std::string>> names;
  const auto check = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMostLevels) {
      throw refused(where, fmt::format("JSON of at most {} levels", kMostLevels), "more");
    }
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key &&
        !names.back().insert(parsed.get<std::string>()).second) {
      throw refused(where, "each name once",
                    fmt::format("'{}' twice", printable(parsed.get<std::string>())));
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception&) {  // its messages hold what it read, whatever that is
    throw refused(where, "JSON", "something else");
  }
}

/// An object of the manifest, with its place for messages.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw refused(where_, "an object", shown(json));
  }

  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }

  void expect_only(std::initializer_list<std::string_view> names) const {
    for (const auto& item : json_.items()) {
      if (std::find(names.begin(), names.end(), item.key()) != names.end()) continue;
      throw refused(where_, "nothing else", fmt::format("'{}'", printable(item.key())));
    }
  }

  const Json& member(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) throw refused(where_, fmt::format("a '{}'", name), "none");
    return *found;
  }

  Object object(const char* name) const {
    return {member(name), fmt::format("{}: {}", where_, name)};
  }

  std::int64_t number(const char* name, std::int64_t least) const {
    const auto& value = member(name);
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max()
                          : value.is_number_integer();
    if (fits && value.get<std::int64_t>() >= least) return value.get<std::int64_t>();
    throw refused(where_, fmt::format("a whole number of at least {} as '{}'", least, name),
                  shown(value));
  }

  const std::string& text(const std::string& name) const {
    const auto& value = member(name.c_str());
    if (value.is_string()) return value.get_ref<const std::string&>();
    throw refused(where_, fmt::format("a text as '{}'", printable(name)), shown(value));
  }

  const std::string& digits(const char* name, std::size_t count) const {
    const auto& value = text(name);
    if (value.size() == count && value.find_first_not_of("0123456789abcdef") == std::string::npos) {
      return value;
    }
    throw refused(where_, fmt::format("{} hexadecimal digits as '{}'", count, name),
                  fmt::format("'{}'", printable(value)));
  }

 private:
  const Json& json_;
  std::string where_;
};

Position position_of(const Object& object) {
  object.expect_only({"step", "epoch", "epoch_step", "finished_epochs"});
  return {.step = object.number("step", 0),
          .epoch = object.number("epoch", 1),
          .epoch_step = object.number("epoch_step", 0),
          .finished_epochs = object.number("finished_epochs", 0)};
}

std::vector<std::pair<std::string, std::string>> options_of(const Object& object) {
  std::vector<std::pair<std::string, std::string>> options;
  for (const auto& item : object.json().items()) {
    if (!item.value().is_string()) {
      throw refused(object.where(), fmt::format("a text as '{}'", printable(item.key())),
                    shown(item.value()));
    }
    options.emplace_back(item.key(), item.value().get<std::string>());
  }
  return options;
}

double metric_of(const Json& value, const std::string& name, const std::string& where) {
  constexpr auto kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return kInfinity;
  if (value == "-inf") return -kInfinity;
  throw refused(where, fmt::format("a number as '{}'", printable(name)), shown(value));
}

std::map<std::string, double> metrics_of(const Object& object) {
  std::map<std::string, double> metrics;
  for (const auto& item : object.json().items()) {
    metrics[item.key()] = metric_of(item.value(), item.key(), object.where());
  }
  return metrics;
}

/// Checkpoints of other loops than a `Trainer`'s have none.
std::vector<EpochEntry> history_of(const Object& manifest) {
  const auto found = manifest.json().find("history");
  if (found == manifest.json().end()) return {};
  const auto where = manifest.where() + ": history";
  if (!found->is_array()) throw refused(where, "an array", shown(*found));
  std::vector<EpochEntry> history;
  for (const auto& item : *found) {
    const Object entry(item, where);
    entry.expect_only({"fit", "epoch", "training", "validation"});
    history.push_back({.fit = entry.number("fit", 1),
                       .epoch = entry.number("epoch", 1),
                       .training = metrics_of(entry.object("training")),
                       .validation = metrics_of(entry.object("validation"))});
  }
  return history;
}

/// A name that leads nowhere else.
bool is_plain(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name != kManifestName &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::vector<FileEntry> files_of(const Object& object) {
  std::vector<FileEntry> files;
  for (const auto& item : object.json().items()) {
    if (!is_plain(item.key())) {
      throw refused(object.where(), "names of files in this folder",
                    fmt::format("'{}'", printable(item.key())));
    }
    const Object file(item.value(), fmt::format("{}: {}", object.where(), printable(item.key())));
    file.expect_only({"bytes", "xxh3_128"});
    files.push_back(
        {item.key(), file.number("bytes", 0), file.digits("xxh3_128", kChecksumDigits)});
  }
  return files;
}

/// As it comes back from a manifest, which is UTF-8.
std::string as_stored(const std::string& text) {
  return Json::parse(dumped(text, -1)).get<std::string>();
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  const auto& position = manifest.position;
  Json json{{kVersionKey, kVersion},
            {"position",
             {{"step", position.step},
              {"epoch", position.epoch},
              {"epoch_step", position.epoch_step},
              {"finished_epochs", position.finished_epochs}}},
            {"options", options_json(manifest)},
            {"weights", manifest.weights},
            {"metrics", metrics_json(manifest.metrics)},
            {"reason", manifest.reason},
            {"job", manifest.job},
            {"written", manifest.written},
            {"lockstep", version()},
            {"files", files_json(manifest)}};
  if (!manifest.history.empty()) json["history"] = history_json(manifest);
  json["checksum"] = kNoChecksum;
  auto text = dumped(json, 2) + "\n";
  text.replace(checksum_at(text), kNoChecksum.size(), checksum_of(text));
  return text;
}

Manifest parse_manifest(std::string_view text, std::string_view where) {
  check_checksum(text, where);
  const auto json = parse_text(text, where);
  const Object object(json, std::string(where));
  if (const auto found = object.number(kVersionKey, 1); found != kVersion) {
    throw Error(
        ErrorKind::Data,
        fmt::format("{}: expected a checkpoint of format {}, found {}", where, kVersion, found),
        "a newer lockstep wrote it: use that");
  }
  object.expect_only({kVersionKey, "position", "options", "weights", "metrics", "history", "reason",
                      "job", "written", "lockstep", "files", "checksum"});
  object.text("lockstep");
  return {.position = position_of(object.object("position")),
          .options = options_of(object.object("options")),
          .weights = object.digits("weights", kDigestDigits),
          .metrics = metrics_of(object.object("metrics")),
          .history = history_of(object),
          .reason = object.text("reason"),
          .job = object.text("job"),
          .written = object.text("written"),
          .files = files_of(object.object("files"))};
}

std::vector<Contradiction> contradictions(
    const Manifest& manifest, const std::vector<std::pair<std::string, std::string>>& options) {
  constexpr const char* kNone = "none";
  std::map<std::string, std::string> was;
  for (const auto& [name, value] : manifest.options) was[as_stored(name)] = as_stored(value);
  std::vector<Contradiction> found;
  for (const auto& [name, value] : options) {
    const auto stored = was.extract(as_stored(name));
    const auto before = stored ? stored.mapped() : kNone;
    if (!stored || before != as_stored(value)) found.push_back({name, before, value});
  }
  // What was left over is no longer an option; in the order of the manifest.
  for (const auto& [name, value] : manifest.options) {
    if (was.contains(as_stored(name))) found.push_back({name, value, kNone});
  }
  return found;
}

}  // namespace lockstep::checkpoint
