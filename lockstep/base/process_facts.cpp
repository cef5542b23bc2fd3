#include "lockstep/base/process_facts.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"

namespace lockstep {
namespace {

std::optional<std::uint64_t> number_in(const std::string& path, std::string_view after) {
  try {
    const auto text = read_file(path);
    const auto found = text.find(after);
    if (found == std::string::npos) return std::nullopt;
    const std::string_view rest = std::string_view(text).substr(found + after.size());
    const auto begin = rest.find_first_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    const auto number =
        parse_integer(rest.substr(begin, rest.find_first_not_of("0123456789", begin) - begin));
    return number ? std::optional<std::uint64_t>(*number) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

double process_age() {
  std::string stat;
  std::getline(std::ifstream("/proc/self/stat"), stat);
  // The second field is the program's name in parentheses, and may hold anything.
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double start_ticks = 0;
  fields >> start_ticks;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         start_ticks / ticks_per_second;
}

std::int64_t private_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return 0;
}

std::uint64_t available_memory() {
  auto available = std::numeric_limits<std::uint64_t>::max();
  if (const auto kib = number_in("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  const std::string group = "/sys/fs/cgroup/";
  const auto limit = number_in(group + "memory.max", "");
  auto used = number_in(group + "memory.current", "");
  if (!limit || !used) return available;
  // Cached files give way.
  for (const auto* cache : {"\ninactive_file ", "\nactive_file "}) {
    *used -= std::min(*used, number_in(group + "memory.stat", cache).value_or(0));
  }
  return std::min(available, *limit - std::min(*limit, *used));
}

}  // namespace lockstep
