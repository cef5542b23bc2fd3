#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/data/transform/resize_plan.h"

namespace lockstep::data {

/// What one thread needs to transform pictures: memory that grows to the largest picture and
/// stays, and the plans of the last resizes. One thread at a time; any transforms may share it.
class Scratch {
 public:
  /// What a piece of memory is for. Those of different uses never overlap.
  enum class Use : std::uint8_t { Source, Wide, Resized, ResizedAgain, Rows, Channels, Floats };

  /// Memory that begins at a cache line, and holds what was last written for this use or nothing.
  std::uint8_t* bytes(Use use, std::int64_t count);

  /// Valid until the next call of the same function.
  const RowPlan& row_plan(const ResizeKey& key);
  const ColumnPlan& column_plan(const ResizeKey& key);

 private:
  // Pictures of one size have one plan each. Crops of random size have as many as there are sizes,
  // and no cache of sensible size helps.
  static constexpr std::size_t kPlans = 8;

  template <typename Plan>
  struct Plans {
    std::array<Plan, kPlans> plans;
    std::size_t next = 0;
  };

  std::array<std::vector<std::uint8_t>, 7> memory_;
  Plans<RowPlan> row_plans_;
  Plans<ColumnPlan> column_plans_;
  FilterTaps taps_;
};

}  // namespace lockstep::data
