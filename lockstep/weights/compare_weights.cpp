#include "lockstep/weights/compare_weights.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "lockstep/base/half.h"

namespace lockstep::weights {
namespace {

using ConstBytes = std::span<const std::byte>;

/// Files keep elements at any address.
template <typename Element>
Element load(ConstBytes bytes, std::size_t index) {
  Element element;
  std::memcpy(&element, bytes.data() + index * sizeof element, sizeof element);
  return element;
}

/// How far two values with different bits are from each other, so that NaNs come out on top.
double distance(double a, double b) {
  if (std::isnan(a) != std::isnan(b)) return std::numeric_limits<double>::infinity();
  if (a == b || std::isnan(a)) return 0;
  return std::abs(a - b);
}

template <typename Bits, typename ToDouble>
ElementDifferences compare_floats(ConstBytes a, ConstBytes b, ToDouble to_double) {
  ElementDifferences result{.total = static_cast<std::int64_t>(a.size() / sizeof(Bits))};
  double furthest = -1;
  for (std::size_t i = 0; i < a.size() / sizeof(Bits); ++i) {
    const auto bits_a = load<Bits>(a, i);
    const auto bits_b = load<Bits>(b, i);
    if (bits_a == bits_b) continue;
    ++result.differing;
    const std::pair<double, double> values{to_double(bits_a), to_double(bits_b)};
    const double apart = distance(values.first, values.second);
    if (apart <= furthest) continue;
    furthest = apart;
    result.index = static_cast<std::int64_t>(i);
    result.values = values;
  }
  return result;
}

ElementDifferences compare_others(ConstBytes a, ConstBytes b, std::size_t size) {
  ElementDifferences result{.total = static_cast<std::int64_t>(a.size() / size)};
  for (std::size_t i = 0; i < a.size(); i += size) {
    if (std::memcmp(a.data() + i, b.data() + i, size) == 0) continue;
    if (result.differing++ == 0) result.index = static_cast<std::int64_t>(i / size);
  }
  return result;
}

ElementDifferences compare_elements(ElementType type, ConstBytes a, ConstBytes b) {
  switch (type) {
    case ElementType::F16:
      return compare_floats<std::uint16_t>(
          a, b, [](std::uint16_t bits) { return to_float(Float16{bits}); });
    case ElementType::BF16:
      return compare_floats<std::uint16_t>(
          a, b, [](std::uint16_t bits) { return to_float(BFloat16{bits}); });
    case ElementType::F32:
      return compare_floats<std::uint32_t>(
          a, b, [](std::uint32_t bits) { return std::bit_cast<float>(bits); });
    case ElementType::F64:
      return compare_floats<std::uint64_t>(
          a, b, [](std::uint64_t bits) { return std::bit_cast<double>(bits); });
    default:
      return compare_others(a, b, size_of(type));
  }
}

bool has_equal_bytes(ConstBytes a, ConstBytes b) {
  return a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// Nothing where the two are the same.
std::optional<TensorDifference> compare(const std::string& name, const TensorView* a,
                                        const TensorView* b) {
  TensorDifference result{name, a, b, {}};
  if (a == nullptr || b == nullptr || a->type != b->type || a->shape != b->shape) return result;
  if (has_equal_bytes(a->bytes, b->bytes)) return std::nullopt;
  result.elements = compare_elements(a->type, a->bytes, b->bytes);
  return result;
}

void add_names(const TensorSet& set, std::set<std::string>& names) {
  for (const auto& tensor : set.tensors) names.insert(tensor.name);
  for (const auto& tie : set.ties) names.insert(tie.name);
}

}  // namespace

SetComparison compare_weights(const TensorSet& a, const TensorSet& b) {
  std::set<std::string> names;
  add_names(a, names);
  add_names(b, names);
  std::set<std::pair<const TensorView*, const TensorView*>> seen;
  SetComparison result;
  for (const auto& name : names) {
    const auto* const of_a = a.find(name);
    const auto* const of_b = b.find(name);
    const bool is_in_both = of_a != nullptr && of_b != nullptr;
    if (is_in_both && !seen.emplace(of_a, of_b).second) continue;
    ++result.tensors;
    if (auto found = compare(name, of_a, of_b)) result.differences.push_back(std::move(*found));
  }
  return result;
}

}  // namespace lockstep::weights
