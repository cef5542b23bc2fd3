#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/weights/tensor_set.h"

namespace lockstep::testing {

/// Adds a tensor of these bytes, which the set owns.
inline void add_tensor(weights::TensorSet& set, std::string name, weights::ElementType type,
                       std::vector<std::int64_t> shape, std::string_view bytes) {
  auto memory = std::make_shared<std::vector<std::byte>>(bytes.size());
  if (!bytes.empty()) std::memcpy(memory->data(), bytes.data(), bytes.size());
  set.tensors.push_back({std::move(name), type, std::move(shape), *memory});
  set.memory.push_back(std::move(memory));
}

/// Tensors of every type, whose bytes tell them apart, with a tie, a scalar and an empty one.
inline weights::TensorSet every_type() {
  weights::TensorSet set;
  char salt = 1;
  for (int i = 0; i <= static_cast<int>(weights::ElementType::F64); ++i) {
    const auto type = static_cast<weights::ElementType>(i);
    std::string bytes;
    for (std::size_t k = 0; k < 6 * size_of(type); ++k) {
      bytes += type == weights::ElementType::Bool ? static_cast<char>(k % 2) : salt;
      salt = static_cast<char>(salt * 5 + 3);
    }
    add_tensor(set, "t." + std::string(name_of(type)), type, {2, 3}, bytes);
  }
  add_tensor(set, "scalar", weights::ElementType::I64, {}, "12345678");
  add_tensor(set, "empty", weights::ElementType::F32, {0, 4}, "");
  set.ties = {{"head", "t.f32"}, {"z.tail", "t.f32"}};
  return set;
}

/// The same without what PyTorch's files have no storage for.
inline weights::TensorSet every_torch_type() {
  auto set = every_type();
  std::erase_if(set.tensors, [](const weights::TensorView& tensor) {
    return tensor.name == "t.u16" || tensor.name == "t.u32" || tensor.name == "t.u64";
  });
  return set;
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// A file of tests/weights/fixtures.
inline std::string weight_fixture(const std::string& name) {
  return std::string(WEIGHT_FIXTURES) + "/" + name;
}

}  // namespace lockstep::testing
