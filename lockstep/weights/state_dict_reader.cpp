#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/pickle.h"
#include "lockstep/weights/state_dict.h"
#include "lockstep/weights/torch_objects.h"
#include "lockstep/weights/zip_reader.h"

namespace lockstep::weights {
namespace {

using data::Bytes;
using data::damaged;
using data::Pickle;
using data::PickleCalls;
using data::PickleKind;
using data::PickleOptions;
using data::printable;

/// The pickle of the number 0x1950a86a20f9469cfc6c, which old files begin with, from its opcode on:
/// before it stand what the pickle's protocol wants.
constexpr std::string_view kLegacyMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
constexpr std::size_t kMagicWithin = 32;
constexpr std::int64_t kLegacyProtocol = 1001;
/// Each tensor that is not row-major is copied once; views of one storage may repeat its elements.
constexpr std::size_t kMostCopies = 4;

Bytes as_u8(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

/// Where the first pickle of an old file ends; 0 where it is none.
std::size_t legacy_begin(Bytes file) noexcept {
  const auto begin = data::as_text(file).substr(0, kMagicWithin);
  const auto at = begin.find(kLegacyMagic);
  return at == std::string_view::npos || begin[0] != '\x80' ? 0 : at + kLegacyMagic.size();
}

void check_size(const StorageRef& storage, std::size_t bytes, std::string_view where) {
  const auto expected =
      bytes_of(ElementType::U8,
               std::array{static_cast<std::int64_t>(storage.element_bytes()), storage.elements});
  if (expected == bytes) return;
  throw Error(
      ErrorKind::Data,
      fmt::format("{}: storage '{}': expected {} elements of {} bytes, found {} bytes", where,
                  printable(storage.key), storage.elements, storage.element_bytes(), bytes));
}

class ZipFile {
 public:
  ZipFile(Bytes file, std::string_view where) : zip_(file, where), where_(where) {
    if (zip_.has("constants.pkl") || zip_.has_folder("code/")) {
      throw Error(ErrorKind::Data,
                  fmt::format("{}: expected a state dict, found a TorchScript program", where),
                  "save its weights alone, in Python: "
                  "torch.save(torch.jit.load(FILE).state_dict(), NEW_FILE)");
    }
    if (!zip_.has("data.pkl")) {
      throw Error(ErrorKind::Data,
                  fmt::format("{}: expected '{}data.pkl' in the zip file, as torch.save writes it, "
                              "found none",
                              where, printable(zip_.folder())));
    }
    if (zip_.has("byteorder") && data::as_text(zip_.read("byteorder")) != "little") {
      throw Error(ErrorKind::Data,
                  fmt::format("{}: expected little-endian numbers, found '{}'", where,
                              printable(data::as_text(zip_.read("byteorder")))));
    }
  }

  TensorSet read(std::size_t most_copied) {
    const auto content = zip_.read("data.pkl");
    const Pickle pickle(content, fmt::format("{}: {}data.pkl", where_, printable(zip_.folder())),
                        {.calls = PickleCalls::Symbols});
    return tensors_of(
        pickle.root(), [&](const StorageRef& storage) { return read_storage(storage); },
        most_copied, where_);
  }

 private:
  Bytes read_storage(const StorageRef& storage) {
    auto found = checked_.find(storage.key);
    if (found == checked_.end()) {
      found = checked_.emplace(storage.key, zip_.read("data/" + storage.key)).first;
    }
    check_size(storage, found->second.size(), where_);
    return found->second;
  }

  ZipReader zip_;
  std::string where_;
  std::unordered_map<std::string, Bytes> checked_;
};

/// Five pickles (the magic number, the version, facts about the machine, the object, the keys of
/// its storages), then for each key the number of elements and the elements.
class LegacyFile {
 public:
  LegacyFile(Bytes file, std::string_view where)
      : file_(file), where_(where), position_(legacy_begin(file)) {}

  TensorSet read(std::size_t most_copied) {
    check_version();
    const auto object = next_pickle();
    const auto keys = next_pickle();
    const auto storages = find_storages(*object, *keys);
    const auto look_up = [&](const StorageRef& storage) {
      const auto found = storages.find(storage.key);
      if (found == storages.end()) {
        throw Error(ErrorKind::Data, fmt::format("{}: expected a storage '{}', found none", where_,
                                                 printable(storage.key)));
      }
      // Of a view, `elements` is the size of the whole.
      check_size(storage, found->second.size(), where_);
      return found->second;
    };
    return tensors_of(object->root(), look_up, most_copied, where_);
  }

 private:
  std::unique_ptr<Pickle> next_pickle() {
    auto pickle = std::make_unique<Pickle>(file_, where_,
                                           PickleOptions{.calls = PickleCalls::Symbols,
                                                         .begin = position_,
                                                         .end = PickleOptions::End::Anywhere});
    position_ = pickle->end();
    return pickle;
  }

  void check_version() {
    const auto version = next_pickle();
    if (version->root().integer != kLegacyProtocol) {
      throw damaged(where_, version->root().offset,
                    fmt::format("version {} of PyTorch's old format", kLegacyProtocol),
                    fmt::format("{}", version->root().integer));
    }
    const auto machine = next_pickle();
    const auto* const is_little = machine->root().find("little_endian");
    if (is_little == nullptr || is_little->integer == 0) {
      throw damaged(where_, machine->root().offset, "little-endian numbers", "big-endian ones");
    }
  }

  std::unordered_map<std::string, Bytes> find_storages(const Pickle& object, const Pickle& keys) {
    std::unordered_map<std::string_view, std::size_t> element_bytes;
    for (const auto& value : object.values()) {
      if (is_storage(value)) note_size(value, element_bytes);
    }
    std::unordered_map<std::string, Bytes> storages;
    for (const auto* const key : keys.root().items) {
      const auto size = element_bytes.find(key->bytes);
      if (key->kind != PickleKind::String || size == element_bytes.end()) {
        throw damaged(where_, key->offset, "the key of a storage that something refers to",
                      fmt::format("'{}'", printable(key->bytes)));
      }
      storages[std::string(key->bytes)] = next_storage(key->bytes, size->second);
    }
    if (position_ != file_.size()) {
      throw damaged(where_, position_, "the end of the file after its last storage",
                    fmt::format("{} more bytes", file_.size() - position_));
    }
    return storages;
  }

  void note_size(const data::PickleValue& value,
                 std::unordered_map<std::string_view, std::size_t>& element_bytes) const {
    const auto storage = storage_of(value, where_);
    const auto key = value.items[0]->items[2]->bytes;
    const auto [known, is_new] = element_bytes.try_emplace(key, storage.element_bytes());
    if (is_new || known->second == storage.element_bytes()) return;
    throw damaged(
        where_, value.offset,
        fmt::format("elements of {} bytes in storage '{}'", known->second, printable(key)),
        fmt::format("{}", storage.element_bytes()));
  }

  Bytes next_storage(std::string_view key, std::size_t element_bytes) {
    constexpr std::size_t kCountBytes = 8;
    const auto left = file_.size() - position_;
    std::uint64_t count = 0;
    for (std::size_t i = 0; left >= kCountBytes && i < kCountBytes; ++i) {
      count |= std::uint64_t{file_[position_ + i]} << (8 * i);
    }
    if (left < kCountBytes || count > (left - kCountBytes) / element_bytes) {
      throw damaged(where_, position_,
                    fmt::format("{} elements of {} bytes in storage '{}'", count, element_bytes,
                                printable(key)),
                    fmt::format("the end of the file at byte {}", file_.size()),
                    "the file may be cut off: get it again");
    }
    const auto bytes = static_cast<std::size_t>(count) * element_bytes;
    const auto content = file_.subspan(position_ + kCountBytes, bytes);
    position_ += kCountBytes + bytes;
    return content;
  }

  Bytes file_;
  std::string where_;
  std::size_t position_;
};

}  // namespace

bool is_state_dict(std::span<const std::byte> file) noexcept {
  return is_zip(as_u8(file)) || legacy_begin(as_u8(file)) != 0;
}

TensorSet read_state_dict(std::span<const std::byte> file, std::string_view where) {
  const auto bytes = as_u8(file);
  const auto most_copied = kMostCopies * bytes.size();
  if (is_zip(bytes)) return ZipFile(bytes, where).read(most_copied);
  if (legacy_begin(bytes) != 0) return LegacyFile(bytes, where).read(most_copied);
  throw damaged(where, 0, "a file of torch.save", data::to_hex(bytes),
                bytes.empty() ? "the file is empty" : "");
}

}  // namespace lockstep::weights
