#include "bench/driver/scratch_files.h"

#include <cstdlib>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep::bench {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  auto name = (fs::temp_directory_path() / "lockstep-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw io_error(name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_values(const data::Dataset& set, std::size_t field, std::int64_t samples,
                  const fs::path& path) {
  std::ofstream file(path, std::ios::binary);
  data::Sample sample(set.fields());
  const auto bytes = static_cast<std::streamsize>(bytes_of(set.fields()[field]));
  for (std::int64_t i = 0; i < samples; ++i) {
    set.sample(i, sample);
    file.write(reinterpret_cast<const char*>(sample.data(field)), bytes);
  }
  if (!file.flush()) throw io_error(path);
}

}  // namespace lockstep::bench
