#include "lockstep/weights/safetensors_header.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/bytes.h"

namespace lockstep::weights {
namespace {

using lockstep::data::printable;
using nlohmann::json;

constexpr std::size_t kMaxHeaderDimensions = 64;

/// Follows the one shape that a header may have, event by event: nothing is built that is not
/// wanted, so neither depth nor repetition costs anything.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(std::string_view where) : where_(where) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::Outside) {
      place_ = Place::Header;
    } else if (place_ == Place::Header && key_ == kMetadataKey) {
      place_ = Place::Metadata;
    } else if (place_ == Place::Header) {
      place_ = Place::Tensor;
      entry_ = {.name = key_, .shape = {}};
      fields_ = {};
    } else {
      throw refused("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    key_ = name;
    if (place_ == Place::Header && !names_.insert(key_).second) {
      throw error(fmt::format("expected each name once, found '{}' twice", printable(key_)));
    }
    if (place_ == Place::Metadata && header_.metadata.contains(key_)) {
      throw error(fmt::format("expected each key of {} once, found '{}' twice", kMetadataKey,
                              printable(key_)));
    }
    if (place_ == Place::Tensor) mark_field();
    return true;
  }

  bool end_object() override {
    if (place_ == Place::Tensor) {
      for (const auto& [has_field, name] :
           {std::pair{fields_.type, "dtype"}, std::pair{fields_.shape, "shape"},
            std::pair{fields_.offsets, "data_offsets"}}) {
        if (!has_field) throw error(fmt::format("{} has no '{}'", tensor(), name));
      }
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::Header ? Place::Outside : Place::Header;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::Tensor || key_ == "dtype") throw refused("a list");
    place_ = key_ == "shape" ? Place::Shape : Place::Offsets;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    if (place_ == Place::Shape) {
      entry_.shape.assign(numbers_.begin(), numbers_.end());
    } else if (numbers_.size() == 2) {
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    } else {
      throw error(fmt::format("{}: expected 2 data_offsets, found {}", tensor(), numbers_.size()));
    }
    place_ = Place::Tensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (place_ != Place::Shape && place_ != Place::Offsets) throw refused(std::to_string(number));
    if (number > std::numeric_limits<std::int64_t>::max()) throw refused(std::to_string(number));
    if (numbers_.size() == kMaxHeaderDimensions) {
      throw error(fmt::format("{}: expected at most {} numbers as its {}, found more", tensor(),
                              kMaxHeaderDimensions, key_));
    }
    numbers_.push_back(number);
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::Metadata) {
      header_.metadata.emplace(key_, text);
    } else if (place_ == Place::Tensor && key_ == "dtype") {
      set_type(text);
    } else {
      throw refused(fmt::format("'{}'", printable(text)));
    }
    return true;
  }

  bool number_integer(number_integer_t number) override { throw refused(std::to_string(number)); }
  bool number_float(number_float_t, const string_t& text) override {
    throw refused(printable(text));
  }
  bool null() override { throw refused("null"); }
  bool boolean(bool value) override { throw refused(value ? "true" : "false"); }
  bool binary(binary_t&) override { throw refused("bytes"); }

  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& failure) override {
    // What nlohmann says begins with its own name for the error, and its view of the position.
    std::string_view reason = failure.what();
    if (const auto colon = reason.find(": "); colon != std::string_view::npos) {
      reason.remove_prefix(colon + 2);
    }
    throw data::damaged(where_, 8 + position, "a header in JSON", printable(reason, 200));
  }

 private:
  enum class Place : std::uint8_t { Outside, Header, Metadata, Tensor, Shape, Offsets };
  struct Fields {
    bool type = false;
    bool shape = false;
    bool offsets = false;
  };

  void mark_field() {
    auto* const field = key_ == "dtype"          ? &fields_.type
                        : key_ == "shape"        ? &fields_.shape
                        : key_ == "data_offsets" ? &fields_.offsets
                                                 : nullptr;
    if (field == nullptr) {
      throw error(fmt::format("{}: expected dtype, shape and data_offsets, found '{}'", tensor(),
                              printable(key_)));
    }
    if (std::exchange(*field, true)) {
      throw error(fmt::format("{}: expected '{}' once, found it twice", tensor(), key_));
    }
  }

  void set_type(const std::string& name) {
    const auto type = from_safetensors_name(name);
    if (!type) {
      throw error(
          fmt::format("{}: expected elements of a type that lockstep knows (F32, F16, "
                      "BF16, F64, I64, …), found '{}'",
                      tensor(), printable(name)));
    }
    entry_.type = *type;
  }

  std::string tensor() const { return fmt::format("tensor '{}'", printable(entry_.name)); }

  Error error(const std::string& what) const {
    return {ErrorKind::Data, fmt::format("{}: header: {}", where_, what)};
  }

  Error refused(const std::string& found) const {
    switch (place_) {
      case Place::Outside:
        return error("expected an object, found " + found);
      case Place::Header:
        return error(fmt::format("expected an object as '{}', found {}", printable(key_), found));
      case Place::Metadata:
        return error(fmt::format("{}: expected a string as '{}', found {}", kMetadataKey,
                                 printable(key_), found));
      default:
        return error(fmt::format("{}: expected {} as '{}', found {}", tensor(),
                                 key_ == "dtype" ? "a string" : "a list of whole numbers",
                                 printable(key_), found));
    }
  }

  std::string where_;
  SafetensorsHeader header_;
  Place place_ = Place::Outside;
  std::string key_;
  std::unordered_set<std::string> names_;
  SafetensorsEntry entry_;
  Fields fields_;
  std::vector<std::uint64_t> numbers_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::string_view where) {
  HeaderReader reader(where);
  json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

}  // namespace lockstep::weights
