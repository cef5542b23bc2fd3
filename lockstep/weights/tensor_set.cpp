#include "lockstep/weights/tensor_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"
#include "lockstep/data/formats/bytes.h"

namespace lockstep::weights {
namespace {

const TensorView* find_kept(const std::vector<TensorView>& tensors, std::string_view name) {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const TensorView& tensor, std::string_view key) { return tensor.name < key; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

const Tied* find_tie(const std::vector<Tied>& ties, std::string_view name) {
  const auto found =
      std::lower_bound(ties.begin(), ties.end(), name,
                       [](const Tied& tie, std::string_view key) { return tie.name < key; });
  return found != ties.end() && found->name == name ? &*found : nullptr;
}

void check_bytes(const TensorView& tensor, std::string_view where) {
  const auto bytes = bytes_of(tensor.type, tensor.shape);
  if (bytes == tensor.bytes.size()) return;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected the bytes of '{}', {}, found {} of them", where,
                          data::printable(tensor.name), describe(tensor.type, tensor.shape),
                          tensor.bytes.size()));
}

void check_names(const TensorSet& set, std::string_view where) {
  std::unordered_set<std::string_view> kept;
  std::unordered_set<std::string_view> all;
  const auto add = [&](std::string_view name) {
    if (!is_utf8(name)) {
      throw Error(ErrorKind::Options, fmt::format("{}: expected names in UTF-8, found '{}'", where,
                                                  data::printable(name)));
    }
    if (all.insert(name).second) return;
    throw Error(ErrorKind::Options,
                fmt::format("{}: the name '{}' occurs twice", where, data::printable(name)));
  };
  for (const auto& tensor : set.tensors) {
    add(tensor.name);
    kept.insert(tensor.name);
  }
  for (const auto& tie : set.ties) {
    add(tie.name);
    if (kept.contains(tie.kept)) continue;
    throw Error(ErrorKind::Options,
                fmt::format("{}: '{}' is tied to '{}', which is not there", where,
                            data::printable(tie.name), data::printable(tie.kept)));
  }
}

/// Gives each tensor the first of its names, of those that are certain.
void keep_first_names(TensorSet& set) {
  std::unordered_map<std::string, std::string> firsts;
  for (const auto& tie : set.ties) {
    auto& first = firsts.try_emplace(tie.kept, tie.kept).first->second;
    first = std::min(first, tie.name);
  }
  for (auto& tie : set.ties) {
    const auto& first = firsts.at(tie.kept);
    if (tie.name == first) tie.name = tie.kept;
    tie.kept = first;
  }
  for (auto& tensor : set.tensors) {
    if (const auto found = firsts.find(tensor.name); found != firsts.end()) {
      tensor.name = found->second;
    }
  }
  for (auto& tie : set.possible_ties) {
    if (const auto found = firsts.find(tie.kept); found != firsts.end()) tie.kept = found->second;
  }
}

}  // namespace

const TensorView* TensorSet::find(std::string_view name) const noexcept {
  if (const auto* const tensor = find_kept(tensors, name)) return tensor;
  const auto* tie = find_tie(ties, name);
  if (tie == nullptr) tie = find_tie(possible_ties, name);
  return tie != nullptr ? find_kept(tensors, tie->kept) : nullptr;
}

std::optional<std::size_t> bytes_of(ElementType type,
                                    std::span<const std::int64_t> shape) noexcept {
  std::size_t bytes = size_of(type);
  bool is_empty = false;
  for (const auto extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return is_empty ? 0 : bytes;
}

std::string describe(ElementType type, std::span<const std::int64_t> shape) {
  return fmt::format("{} [{}]", name_of(type), fmt::join(shape, ", "));
}

TensorSet in_order(TensorSet set, std::string_view where) {
  for (const auto& tensor : set.tensors) check_bytes(tensor, where);
  check_names(set, where);
  keep_first_names(set);
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(set.tensors.begin(), set.tensors.end(), by_name);
  std::sort(set.ties.begin(), set.ties.end(), by_name);
  std::sort(set.possible_ties.begin(), set.possible_ties.end(), by_name);
  return set;
}

}  // namespace lockstep::weights
