#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/export.h"

namespace lockstep::data {

struct ColumnPlan;
struct ResizeKey;
struct RowPlan;

/// What one thread needs to transform pictures: memory that grows to the largest picture and
/// stays, and the plans of the last resizes. One thread at a time; any transforms may share it.
class LOCKSTEP_API Scratch {
 public:
  Scratch();
  Scratch(Scratch&&) noexcept;
  Scratch& operator=(Scratch&&) noexcept;
  ~Scratch();

  /// What a piece of memory is for. Those of different uses never overlap.
  enum class Use : std::uint8_t { Source, Wide, Resized, ResizedAgain, Rows, Channels, Floats };

  /// Memory that begins at a cache line, and holds what was last written for this use or nothing.
  std::uint8_t* bytes(Use use, std::int64_t count);

  /// Valid until the next call of the same function.
  const RowPlan& row_plan(const ResizeKey& key);
  const ColumnPlan& column_plan(const ResizeKey& key);

 private:
  struct LOCKSTEP_INTERNAL State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
