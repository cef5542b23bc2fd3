#include "lockstep/monitor/status/status_feed.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/base/strings.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr off_t kMostBytes = 256 << 10;  // of a log, from its end
constexpr const char* kEventsName = "events.jsonl";
constexpr const char* kEventsPathName = "events.path";

/// The end of a regular file of this user's; nothing where it is none. Links are not followed, and
/// pipes not waited for.
std::string read_end(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if (info.st_uid != ::getuid()) return {};
  const auto begin = std::max<off_t>(0, info.st_size - kMostBytes);
  std::string text(static_cast<std::size_t>(info.st_size - begin), '\0');
  const auto count = ::pread(file.get(), text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (begin > 0) text.erase(0, text.find('\n') + 1);  // of the first line only the end is there
  return text;
}

std::string find_log(const std::string& folder) {
  const auto elsewhere = read_end(folder + "/" + kEventsPathName);
  return elsewhere.empty() ? folder + "/" + kEventsName : elsewhere;
}

}  // namespace

void leave_path_of_events(const std::string& folder, const std::string& events_file) {
  if (events_file != folder + "/" + kEventsName) {
    write_file(folder + "/" + kEventsPathName, events_file);
  }
}

StatusFeed::StatusFeed(topology::Environment environment, StatusFeedOptions options)
    : sampler_(std::move(environment)), options_(std::move(options)) {}

std::string StatusFeed::snapshot() {
  auto snapshot = sampler_.sample();
  const auto user = user_name(::getuid());
  std::erase_if(snapshot.jobs, [&](const WatchedJob& job) {
    const bool is_another = !options_.job.empty() && job.id != options_.job;
    return is_another || (!options_.shows_others && job.user != user);
  });
  folders_.clear();
  for (const auto& job : snapshot.jobs) folders_[job.id] = job.folder;
  return view_.to_json(snapshot);
}

std::string StatusFeed::events(const std::string& job, int most) {
  const auto folder = folders_.find(job);
  if (folder == folders_.end()) return "[]";
  std::deque<Json> newest;
  const auto text = read_end(find_log(folder->second));
  for (const auto line : split(text, '\n')) {
    auto event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) continue;  // the last line may be on its way
    newest.push_back(std::move(event));
    if (std::ssize(newest) > most) newest.pop_front();
  }
  return Json(std::vector<Json>(newest.begin(), newest.end()))
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::monitor
