#pragma once

#include <optional>
#include <string>

#include "lockstep/data/sets/catalog.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// The options that choose a dataset, as the user wrote them.
struct DataArguments {
  std::string dataset = "fashion-mnist";
  std::string data_dir;
  std::string cache_dir;
  data::SyntheticOptions synthetic;
  std::string image_size = "32x32x3";  ///< of synthetic images
};

/// --dataset, --data-dir, --cache-path, under a heading of the help.
void add_set_options(CLI::App& app, DataArguments& to, const std::string& group);
/// --size, --classes, --data-seed: the options of a synthetic dataset.
void add_synthetic_options(CLI::App& app, DataArguments& to, const std::string& group);
/// All of them, and --image-size of synthetic images.
void add_data_options(CLI::App& app, DataArguments& to);

/// Throws `Options` for a size that is none. `where` begins the message.
data::SetOptions set_options(const std::string& where, const DataArguments& written);

}  // namespace lockstep::cli
