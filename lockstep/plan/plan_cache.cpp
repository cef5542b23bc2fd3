#include "lockstep/plan/plan_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/fnv.h"
#include "lockstep/base/partial_file.h"
#include "lockstep/plan/parse_json.h"
#include "lockstep/plan/plan_folder.h"
#include "lockstep/plan/plan_json.h"
#include "lockstep/plan/plan_lock.h"

namespace lockstep::plan {
namespace {

namespace fs = std::filesystem;

using std::chrono_literals::operator""ms;

constexpr std::string_view kFormat = "lockstep plan 1";
/// No plan comes near: what is larger is none.
constexpr std::int64_t kMostBytesOfOne = std::int64_t{16} << 20;
constexpr auto kPollInterval = 50ms;

/// A text that is the same for the same value. Facts may hold paths, which need not be UTF-8 as
/// JSON must be: what is not is replaced.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string checksum_of(std::string_view text) {
  return fmt::format("{:016x}", Fnv().add(text).value());
}

Json json_of(const PlanKey& key) {
  Json facts = Json::array();
  for (const auto& [name, value] : key.facts) facts.push_back(Json::array({name, value}));
  return facts;
}

std::string entry_of(const PlanKey& key, const Plan& plan) {
  auto json = parse_json("plan", to_json(plan));
  auto checksum = checksum_of(dumped(json));
  Json entry = Json::object();
  entry["format"] = kFormat;
  entry["key"] = json_of(key);
  entry["checksum"] = std::move(checksum);
  entry["plan"] = std::move(json);
  return dumped(entry) + "\n";
}

const Json& member(const Json& entry, const char* name) {
  if (entry.is_object()) {
    if (const auto found = entry.find(name); found != entry.end()) return *found;
  }
  throw Error(ErrorKind::Data, fmt::format("damaged: expected '{}', found nothing", name));
}

/// The first fact that is not the same: "batch_size is "8" there, "16" here".
std::string difference(const Json& there, const Json& here) {
  if (!there.is_array() || there.size() != here.size()) return "there are other facts";
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (there[i] == here[i]) continue;
    const auto& fact = there[i];
    if (!fact.is_array() || fact.size() != 2 || fact[0] != here[i][0]) break;
    return fmt::format("{} is {} there, {} here", here[i][0].get<std::string>(), described(fact[1]),
                       described(here[i][1]));
  }
  return "there are other facts";
}

/// Errors: `Data`, with the reason why it is not to be used.
Plan plan_of(const std::string& text, const PlanKey& key) {
  const auto entry = parse_json("damaged", text);
  if (const auto& format = member(entry, "format"); format != kFormat) {
    throw Error(ErrorKind::Data, fmt::format("damaged: expected \"{}\" as its format, found {}",
                                             kFormat, described(format)));
  }
  // As it is after it was written, and read.
  const auto facts = parse_json("key", dumped(json_of(key)));
  if (const auto& found = member(entry, "key"); found != facts) {
    throw Error(ErrorKind::Data, "made for something else: " + difference(found, facts));
  }
  const auto plan = dumped(member(entry, "plan"));
  const auto checksum = checksum_of(plan);
  if (const auto& found = member(entry, "checksum"); found != checksum) {
    throw Error(ErrorKind::Data, fmt::format("damaged: expected \"{}\" as its checksum, found {}",
                                             checksum, described(found)));
  }
  return plan_from_json(plan);
}

/// What a look at an entry gave.
struct Look {
  std::optional<Plan> plan{};
  std::string complaint{};  ///< why what is there is not used; empty where nothing is
};

Look look_at(const fs::path& path, const PlanKey& key, const PlanCache::Settings& settings) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return {.complaint = std::generic_category().message(errno)};
  }
  if (!S_ISREG(status.st_mode)) return {.complaint = "expected a file, found another kind"};
  if (status.st_size > kMostBytesOfOne) {
    return {.complaint = fmt::format("expected at most {} bytes, found {}", kMostBytesOfOne,
                                     status.st_size)};
  }
  try {
    auto plan = plan_of(read_file(path.string()), key);
    if (auto complaint = settings.complaint(plan); !complaint.empty()) {
      return {.complaint = std::move(complaint)};
    }
    // Used now, so not the next one to go. Where the file is another user's, its age stays.
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return {.plan = std::move(plan)};
  } catch (const Error& error) {
    return {.complaint = error.what()};
  }
}

}  // namespace

std::string PlanKey::digest() const {
  // With their lengths: "ab", "c" is not "a", "bc".
  Fnv hash;
  for (const auto& [name, value] : facts) {
    hash.add(name.size()).add(name).add(value.size()).add(value);
  }
  return fmt::format("{:016x}", hash.value());
}

PlanCache::PlanCache(fs::path folder, Settings settings)
    : folder_(std::move(folder) / "plans"), settings_(std::move(settings)) {}

fs::path PlanCache::path_of(const PlanKey& key) const {
  return folder_ / (key.digest() + ".json");
}

PlanCache::Found PlanCache::get(const PlanKey& key, const std::function<Plan()>& make) const {
  const auto path = path_of(key);
  if (auto look = look_at(path, key, settings_); look.plan)
    return {std::move(*look.plan), true, true};

  PlanLock lock(folder_ / (key.digest() + ".lock"));
  const auto holder = wait_for(lock);
  // Somebody else may have made it meanwhile.
  auto look = look_at(path, key, settings_);
  if (look.plan) return {std::move(*look.plan), true, true};
  if (!look.complaint.empty()) {
    settings_.tell(fmt::format("{}: made anew: {}", path.string(), look.complaint));
  }
  if (holder == PlanLock::Holder::Others) {
    settings_.tell(fmt::format("{}: {} has not made it within {:.3g} s: made here, too",
                               path.string(), lock.name_of_holder(), settings_.deadline.count()));
  }
  Found found{make()};
  found.is_kept = holder != PlanLock::Holder::Nobody && keep(key, found.plan);
  return found;
}

PlanLock::Holder PlanCache::wait_for(PlanLock& lock) const {
  const auto start = std::chrono::steady_clock::now();
  std::error_code failure;
  fs::create_directories(folder_, failure);
  while (true) {
    const auto holder = failure ? PlanLock::Holder::Nobody : lock.try_lock();
    if (holder == PlanLock::Holder::Nobody) {
      const auto reason = failure ? failure.message() : std::generic_category().message(errno);
      settings_.tell(fmt::format("{}: plans are not kept: {}", folder_.string(), reason));
    }
    if (holder != PlanLock::Holder::Others) return holder;
    if (std::chrono::steady_clock::now() - start >= settings_.deadline) return holder;
    settings_.heartbeat();
    std::this_thread::sleep_for(kPollInterval);
  }
}

bool PlanCache::keep(const PlanKey& key, const Plan& plan) const {
  const auto path = path_of(key);
  try {
    const auto text = entry_of(key, plan);
    if (std::cmp_greater(text.size(), kMostBytesOfOne)) {
      throw Error(ErrorKind::Data,
                  fmt::format("expected at most {} bytes, found {}", kMostBytesOfOne, text.size()));
    }
    PartialFile file(path);
    file.append(std::as_bytes(std::span(text)));
    file.publish();
  } catch (const Error& error) {
    settings_.tell(fmt::format("{}: not kept: {}", path.string(), error.what()));
    return false;
  }
  tidy_plans(folder_, path, settings_.most_bytes);
  return true;
}

}  // namespace lockstep::plan
