#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/export.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/resume.h"

namespace lockstep::checkpoint {

/// Hears of a checkpoint that is damaged, and passed over.
using OnDamaged = std::function<void(const std::filesystem::path&, const std::string& why)>;

/// The checkpoint that is meant; `folder` is that of the training. Nothing where it is to begin.
///
/// Errors: `Options` where there is none though one is wanted, or nothing at the path that was
/// named; `Data` where all that there are, or the one that was named, are damaged.
LOCKSTEP_PRIVATE_API std::optional<Checkpoint> find_checkpoint(const Resume& resume,
                                                               const std::filesystem::path& folder,
                                                               const OnDamaged& on_damaged);

/// The newest whole checkpoint that an attempt of this job, before this one, has left; none where
/// `job` is empty. Those of other jobs are passed over in silence.
/// Errors: `Io`, naming the folder.
LOCKSTEP_PRIVATE_API std::optional<Checkpoint> find_checkpoint_of_job(
    std::string_view job, const std::filesystem::path& folder, const OnDamaged& on_damaged);

/// The checkpoint at `path`, or the newest whole one in that folder: for a program that only reads
/// it. `where` begins the messages.
///
/// Errors: `Options` if nothing is there or the folder holds no checkpoint; `Data` if every
/// checkpoint is damaged; `Io`.
LOCKSTEP_PRIVATE_API Checkpoint open_checkpoint(std::string_view where,
                                                const std::filesystem::path& path,
                                                const OnDamaged& on_damaged);

/// The value of an option when the newest checkpoint that can be meant was taken, as far as its
/// manifest can be read: for those who decide it before anything else. No other file is looked at.
std::optional<std::string> option_of_checkpoint(const Resume& resume,
                                                const std::filesystem::path& folder,
                                                std::string_view option);

/// A training that begins must not leave its checkpoints among those of another.
/// Errors: `Options` where the folder holds any, which `where` begins.
LOCKSTEP_PRIVATE_API void check_is_unused(std::string_view where,
                                          const std::filesystem::path& folder);

}  // namespace lockstep::checkpoint
