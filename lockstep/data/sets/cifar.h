#pragma once

#include <filesystem>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sets/found_set.h"

namespace lockstep::data {

/// CIFAR-10: "image" u8 [32, 32, 3] and "label" i64. CIFAR-100: also "coarse_label" i64, one of 20.
///
/// They are looked for in `data_dir` and in the folders just below it; `data_dir` may also be the
/// set's own folder. Where there are several, the first of these that is complete is taken, since
/// it is read soonest:
///
///     cifar-10-batches-bin/           cifar-100-binary/          the binary layout
///     cifar-10-batches-py/            cifar-100-python/          the Python layout
///     cifar-10-binary.tar.gz          cifar-100-binary.tar.gz
///     cifar-10-python.tar.gz          cifar-100-python.tar.gz
///
/// An archive may also be a plain `.tar`. Files may hold any number of pictures, the same in each
/// file of a split. Names of classes come from the file that lists them, and
/// are empty where that is not there.
///
/// Errors: `Data` where it is not there, with what was looked for, where, and where to get it.
FoundSet find_cifar10(const std::filesystem::path& data_dir, Split split);
FoundSet find_cifar100(const std::filesystem::path& data_dir, Split split);

}  // namespace lockstep::data
