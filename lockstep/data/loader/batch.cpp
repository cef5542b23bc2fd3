#include "lockstep/data/loader/batch.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/loader/ring.h"

namespace lockstep::data {

Batch& Batch::operator=(Batch&& other) noexcept {
  if (this == &other) return *this;
  release();
  ring_ = std::move(other.ring_);
  slot_ = std::exchange(other.slot_, nullptr);
  return *this;
}

std::int64_t Batch::size() const noexcept {
  return slot_ == nullptr ? 0 : slot_->size;
}

const BatchPlace& Batch::place() const noexcept {
  return slot_->place;
}

const std::vector<Field>& Batch::fields() const noexcept {
  return ring_->fields();
}

std::span<const std::int64_t> Batch::samples() const noexcept {
  return std::span(slot_->indexes).first(static_cast<std::size_t>(slot_->size));
}

std::byte* Batch::data(std::size_t field) const noexcept {
  return slot_->memory.value(field, 0);
}

std::span<const std::int64_t> Batch::lengths(std::size_t field) const {
  if (fields()[field].kind != FieldKind::Varying) {
    throw Error(ErrorKind::Options,
                fmt::format("batch: field '{}': expected one of varying length, found {}",
                            fields()[field].name, describe(fields()[field])));
  }
  return {slot_->memory.lengths(field), static_cast<std::size_t>(size())};
}

void Batch::release() noexcept {
  auto* const slot = std::exchange(slot_, nullptr);
  const auto ring = std::exchange(ring_, nullptr);
  if (slot != nullptr) ring->release(*slot);
}

void Batch::check_type(std::size_t field, DataType type) const {
  const auto& declared = fields()[field];
  if (declared.type == type) return;
  throw Error(
      ErrorKind::Options,
      fmt::format("batch: field '{}': expected to be read as {}, its type, found {}", declared.name,
                  lockstep::name_of(declared.type), lockstep::name_of(type)));
}

}  // namespace lockstep::data
