#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Returns the samples of `dataset` with these indices, in this order.
///
///     auto first_thousand = subset(dataset, IndexRange{0, 1000});
///
/// An index may occur more than once. Throws `Options` for an index that is not in the dataset.
LOCKSTEP_API DatasetPtr subset(DatasetPtr dataset, std::vector<std::int64_t> indices);
LOCKSTEP_API DatasetPtr subset(DatasetPtr dataset, const IndexRange& range);

}  // namespace lockstep::data
