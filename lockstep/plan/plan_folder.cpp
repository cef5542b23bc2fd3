#include "lockstep/plan/plan_folder.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lockstep/plan/plan_lock.h"

namespace lockstep::plan {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""h;

/// Nobody writes a plan, or makes one, for that long.
constexpr auto kAgeOfLeftovers = 1h;

struct File {
  fs::path path;
  fs::file_time_type used;
  std::uintmax_t bytes = 0;
};

/// What follows the 16 digits of a plan's name: ".json"; empty for what has no such name.
std::string_view ending_of(std::string_view name) {
  constexpr std::size_t kDigits = 16;
  const auto digits = name.find_first_not_of("0123456789abcdef");
  return digits == kDigits ? name.substr(kDigits) : std::string_view();
}

std::vector<File> files_of(const fs::path& folder) {
  std::vector<File> files;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::error_code gone;
    File file{.path = entry->path(), .used = entry->last_write_time(gone)};
    if (gone || !entry->is_regular_file(gone)) continue;
    file.bytes = entry->file_size(gone);
    if (!gone) files.push_back(std::move(file));
  }
  return files;
}

void remove_leftovers(const std::vector<File>& files) {
  for (const auto& file : files) {
    if (fs::file_time_type::clock::now() - file.used < kAgeOfLeftovers) continue;
    const auto name = file.path.filename().string();
    const auto ending = ending_of(name);
    std::error_code failure;
    if (ending.starts_with(".json.partial.")) fs::remove(file.path, failure);
    if (ending == ".lock") remove_lock_file(file.path.string());
  }
}

void remove_oldest(std::vector<File> plans, const fs::path& kept, std::int64_t most_bytes) {
  std::sort(plans.begin(), plans.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  std::uintmax_t total = 0;
  for (const auto& plan : plans) total += plan.bytes;
  for (const auto& plan : plans) {
    if (std::cmp_less_equal(total, most_bytes)) return;
    std::error_code failure;
    if (plan.path == kept || !fs::remove(plan.path, failure)) continue;
    total -= plan.bytes;
  }
}

}  // namespace

void tidy_plans(const fs::path& folder, const fs::path& kept, std::int64_t most_bytes) {
  auto files = files_of(folder);
  remove_leftovers(files);
  std::erase_if(files, [](const File& file) {
    const auto name = file.path.filename().string();
    return ending_of(name) != ".json";
  });
  remove_oldest(std::move(files), kept, most_bytes);
}

}  // namespace lockstep::plan
