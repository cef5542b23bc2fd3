#pragma once

#include <string>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep::monitor {

/// The names of what is in a folder, sorted; none where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

/// The folder of a job; nothing where it is another user's, or gone.
UniqueFd open_job_folder(const std::string& path);

/// A regular file in it that belongs to whoever the folder belongs to; nothing where it is none.
/// Others, in a folder that somebody else writes to, could make us wait, or show us what is not
/// theirs.
UniqueFd open_in_folder(const UniqueFd& folder, const std::string& name);

}  // namespace lockstep::monitor
