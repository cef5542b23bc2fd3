#include "lockstep/cli/data_arguments.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/cli/image_size.h"
#include "lockstep/cli/suggested_words.h"
#include "lockstep/cli/whole_number.h"
#include "lockstep/data/sets/set_names.h"

namespace lockstep::cli {

void add_set_options(CLI::App& app, DataArguments& to, const std::string& group) {
  app.add_option("--dataset", to.dataset,
                 fmt::format("{}, or the path of a .pack", fmt::join(data::set_names(), ", ")))
      ->check(suggest(data::set_names(), "*.pack"))
      ->type_name("NAME")
      ->group(group)
      ->capture_default_str();
  app.add_option("--data-dir", to.data_dir,
                 "folder with the dataset [datasets; the folder of the Debian package]")
      ->type_name("DIR")
      ->group(group);
  app.add_option("--cache-path,--executable-cache-path", to.cache_dir,
                 "folder for packs [the user's cache]")
      ->type_name("DIR")
      ->group(group);
}

void add_synthetic_options(CLI::App& app, DataArguments& to, const std::string& group) {
  app.add_option("--size", to.synthetic.size, "number of synthetic samples")
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  app.add_option("--classes", to.synthetic.classes, "number of synthetic classes")
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  app.add_option("--data-seed", to.synthetic.seed, "seed of the synthetic samples")
      ->check(whole_number())
      ->type_name("SEED")
      ->group(group)
      ->capture_default_str();
}

void add_data_options(CLI::App& app, DataArguments& to) {
  add_set_options(app, to, "Options");
  const auto* const group = "Synthetic data";
  add_synthetic_options(app, to, group);
  app.add_option("--image-size", to.image_size,
                 "height, width and channels of the synthetic images")
      ->group(group)
      ->type_name("HxWxC")
      ->capture_default_str();
}

data::SetOptions set_options(const std::string& where, const DataArguments& written) {
  data::SetOptions options{.data_dir = written.data_dir, .synthetic = written.synthetic};
  const auto size = parse_image_size(where, written.image_size);
  options.synthetic.height = size.height;
  options.synthetic.width = size.width;
  options.synthetic.channels = size.channels;
  if (!written.cache_dir.empty()) options.cache_dir = written.cache_dir;
  return options;
}

}  // namespace lockstep::cli
