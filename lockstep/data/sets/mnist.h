#pragma once

#include <filesystem>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sets/found_set.h"

namespace lockstep::data {

/// MNIST and Fashion-MNIST: "image" u8 [28, 28, 1] and "label" i64, from the four IDX files, plain
/// or `.gz`, with '-' or '.' before "idx". Whether one is packed, its first bytes decide.
///
/// They are looked for in `data_dir`, its folder `raw`, and the folder that torchvision makes
/// (`MNIST/raw`, `FashionMNIST/raw`); a plain file is taken before a packed one. For Fashion-MNIST
/// an empty `data_dir` stands for where Debian's package dataset-fashion-mnist puts it.
///
/// Errors: `Data` where it is not there, with what was looked for, where, and where to get it.
FoundSet find_mnist(const std::filesystem::path& data_dir, Split split);
FoundSet find_fashion_mnist(const std::filesystem::path& data_dir, Split split);

}  // namespace lockstep::data
