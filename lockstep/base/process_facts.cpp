#include "lockstep/base/process_facts.h"

#include <pwd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

std::optional<ProcessCounters> process_counters(int process) {
  std::string stat;
  std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), stat);
  // The second field is the program's name in parentheses, and may hold anything.
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  ProcessCounters counters;
  fields >> counters.state;
  std::string skipped;
  for (int field = 4; field < 14; ++field) fields >> skipped;
  std::uint64_t in_user_mode = 0;
  std::uint64_t in_kernel = 0;
  fields >> in_user_mode >> in_kernel;
  for (int field = 16; field < 22; ++field) fields >> skipped;
  fields >> counters.start_ticks;
  const bool has_ended = counters.state == 'Z' || counters.state == 'X';
  if (!fields || has_ended) return std::nullopt;
  counters.cpu_ticks = in_user_mode + in_kernel;
  return counters;
}

double ticks_per_second() {
  return static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::string user_name(unsigned user) {
  std::array<char, 4096> memory;
  passwd entry{};
  passwd* found = nullptr;
  const int error = ::getpwuid_r(user, &entry, memory.data(), memory.size(), &found);
  return error == 0 && found != nullptr ? found->pw_name : std::to_string(user);
}

double process_age() {
  const auto counters = process_counters(::getpid()).value_or(ProcessCounters{});
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         static_cast<double>(counters.start_ticks) / ticks_per_second();
}

std::optional<std::int64_t> private_memory_of(int process) {
  const auto kib = number_in("/proc/" + std::to_string(process) + "/status", "RssAnon:\t");
  if (!kib) return std::nullopt;
  return static_cast<std::int64_t>(*kib * 1024);
}

std::int64_t private_memory() {
  return private_memory_of(::getpid()).value_or(0);
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
