#include "lockstep/checkpoint/find_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kManifestName, ignored);
}

/// Where the newest one is looked for; nothing where a single one was named.
std::optional<fs::path> folder_of(const Resume& resume, const fs::path& folder) {
  if (resume.from != Resume::From::Path) return folder;
  if (is_checkpoint(resume.path)) return std::nullopt;
  return resume.path;
}

void check_is_there(const fs::path& path) {
  std::error_code ignored;  // whoever opens it will say what is wrong with it
  if (fs::status(path, ignored).type() != fs::file_type::not_found) return;
  throw Error(ErrorKind::Options,
              fmt::format("resume: expected a checkpoint or a folder of them, found nothing at {}",
                          path.string()),
              "--resume without a path takes the newest of --checkpoint-dir");
}

}  // namespace

std::optional<Checkpoint> find_checkpoint(const Resume& resume, const fs::path& folder,
                                          const OnDamaged& on_damaged) {
  if (resume.from == Resume::From::Nothing) return std::nullopt;
  if (resume.from == Resume::From::Path) check_is_there(resume.path);
  const auto among = folder_of(resume, folder);
  if (!among) return Checkpoint::open(resume.path);
  int damaged = 0;
  auto found = newest_checkpoint(*among, [&](const fs::path& path, const std::string& why) {
    ++damaged;
    on_damaged(path, why);
  });
  if (found) return found;
  if (damaged > 0) {
    throw Error(ErrorKind::Data,
                fmt::format("resume: expected a whole checkpoint in {}, found {} that are damaged",
                            among->string(), damaged),
                "--checkpoint-dir with another folder, to start a new run");
  }
  if (resume.from == Resume::From::NewestIfAny) return std::nullopt;
  throw Error(ErrorKind::Options,
              fmt::format("resume: expected a checkpoint in {}, found none", among->string()),
              "--resume=auto starts a new run if there is none");
}

std::optional<Checkpoint> find_checkpoint_of_job(std::string_view job, const fs::path& folder,
                                                 const OnDamaged& on_damaged) {
  if (job.empty()) return std::nullopt;
  return newest_checkpoint(folder, on_damaged,
                           [&](const Manifest& manifest) { return manifest.job == job; });
}

Checkpoint open_checkpoint(std::string_view where, const fs::path& path,
                           const OnDamaged& on_damaged) {
  std::error_code ignored;  // If the path cannot be examined, opening it says why.
  if (fs::status(path, ignored).type() == fs::file_type::not_found) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected a checkpoint or a folder of checkpoints, found nothing "
                            "at {}",
                            where, path.string()),
                "name the folder that was --checkpoint-dir of the training");
  }
  if (is_checkpoint(path)) return Checkpoint::open(path);
  int damaged = 0;
  auto found = newest_checkpoint(path, [&](const fs::path& folder, const std::string& why) {
    ++damaged;
    on_damaged(folder, why);
  });
  if (found) return std::move(*found);
  if (damaged > 0) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: expected a whole checkpoint in {}, found {} that {} damaged",
                            where, path.string(), damaged, damaged == 1 ? "is" : "are"));
  }
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected a checkpoint in {}, found none", where, path.string()),
              "name the folder that was --checkpoint-dir of the training");
}

std::optional<std::string> option_of_checkpoint(const Resume& resume, const fs::path& folder,
                                                std::string_view option) {
  if (resume.from == Resume::From::Nothing) return std::nullopt;
  const auto among = folder_of(resume, folder);
  const auto paths = among ? list_checkpoints(*among) : std::vector{resume.path};
  for (const auto& path : std::views::reverse(paths)) {
    try {
      const auto file = (path / kManifestName).string();
      const auto manifest = parse_manifest(read_file(file), file);
      const auto found =
          std::ranges::find(manifest.options, option, &std::pair<std::string, std::string>::first);
      if (found != manifest.options.end()) return found->second;
    } catch (const Error&) {
      // Whoever opens it will say what is wrong with it.
    }
  }
  return std::nullopt;
}

void check_is_unused(std::string_view where, const fs::path& folder) {
  const auto there = list_checkpoints(folder);
  if (there.empty()) return;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected a folder without checkpoints, found {} in {}", where,
                          there.size(), folder.string()),
              "--resume to continue from the newest, or another --checkpoint-dir");
}

}  // namespace lockstep::checkpoint
