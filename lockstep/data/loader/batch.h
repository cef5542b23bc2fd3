#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"
#include "lockstep/data/field.h"
#include "lockstep/data/loader/batch_plan.h"

namespace lockstep::data {

struct BatchSlot;
class Ring;

/// A filled batch. Its memory is the holder's until the batch is destroyed or released, by any
/// thread, which is when the loader may fill it anew; so keep it until the backward pass is done.
/// It may outlive its loader.
class LOCKSTEP_API Batch {
 public:
  /// Called by the loader.
  Batch(std::shared_ptr<Ring> ring, BatchSlot* slot) noexcept
      : ring_(std::move(ring)), slot_(slot) {}
  Batch(Batch&& other) noexcept
      : ring_(std::move(other.ring_)), slot_(std::exchange(other.slot_, nullptr)) {}
  Batch& operator=(Batch&& other) noexcept;
  ~Batch() { release(); }

  /// Samples in it; 0 once it is released.
  std::int64_t size() const noexcept;
  const BatchPlace& place() const noexcept;
  const std::vector<Field>& fields() const noexcept;
  /// The samples' numbers in the set.
  std::span<const std::int64_t> samples() const noexcept;

  /// The values of a field, sample by sample. Throws `Options` for another type.
  template <typename T>
  std::span<T> values(std::size_t field) const {
    check_type(field, kTypeOf<T>);
    return {reinterpret_cast<T*>(data(field)),
            static_cast<std::size_t>(size() * count_of(fields()[field]))};
  }
  template <typename T>
  std::span<T> values(std::string_view field) const {
    return values<T>(position_of(field, fields()));
  }
  std::byte* data(std::size_t field) const noexcept;
  /// How many entries each sample has of a varying field.
  std::span<const std::int64_t> lengths(std::size_t field) const;

  /// Gives the memory back. Nothing but `size` may be asked from then on.
  void release() noexcept;

 private:
  void check_type(std::size_t field, DataType type) const;

  std::shared_ptr<Ring> ring_;
  BatchSlot* slot_;
};

}  // namespace lockstep::data
