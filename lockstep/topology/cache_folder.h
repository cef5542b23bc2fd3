#pragma once

#include <string>

#include "lockstep/base/export.h"
#include "lockstep/topology/environment.h"

namespace lockstep::topology {

/// Where things are kept that can be made again: LOCKSTEP_CACHE_PATH, else `lockstep` in the user's
/// cache folder (XDG_CACHE_HOME, else ~/.cache), else a folder of the user's own in /tmp.
LOCKSTEP_PRIVATE_API std::string cache_folder(const Environment& environment);

}  // namespace lockstep::topology
