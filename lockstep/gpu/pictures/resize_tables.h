#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/data/transform/resize_plan.h"
#include "lockstep/gpu/pictures/picture_pass.h"

namespace lockstep::gpu {

/// The weights of all resizes that a pipeline can come to, as kernels read them.
///
/// A table has an entry for each row, or column, of its result: the first that it sums of the
/// source, and as many weights for every entry, zeros among them where it needs fewer. Entries stay
/// within the source. The weights are `data::compute_taps`'s; a resize to the same size is a table
/// like any other.
class ResizeTables {
 public:
  /// The table of a resize, made where there is none yet. Throws `Options`, as `add_all`, where
  /// tables would become too large to be kept.
  TablePlace add(std::int64_t in, std::int64_t out);

  /// Those of the resizes from every extent up to `most`, by the extent. There is none of 0: its
  /// place is taken by that of 1.
  std::vector<TablePlace> add_all(std::int64_t most, std::int64_t out);

  const std::vector<std::int32_t>& numbers() const noexcept { return numbers_; }

  /// The most rows of the source that so many neighbouring rows of the result need.
  std::int64_t reach(TablePlace table, std::int64_t out, std::int64_t rows) const noexcept;

 private:
  void check_room(std::int64_t first, std::int64_t last, std::int64_t out) const;
  std::int64_t first_of(TablePlace table, std::int64_t entry) const noexcept {
    return numbers_[static_cast<std::size_t>(table.at + entry * (table.taps + 1))];
  }

  std::vector<std::int32_t> numbers_;
  std::map<std::pair<std::int64_t, std::int64_t>, TablePlace> places_;
  data::FilterTaps memory_;
};

}  // namespace lockstep::gpu
