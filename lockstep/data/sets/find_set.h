#pragma once

#include <string>

#include "lockstep/data/pack/pack_store.h"
#include "lockstep/data/sets/catalog.h"
#include "lockstep/data/sets/found_set.h"

namespace lockstep::data {

/// Finds the files that `open_set` would read, and reads none of them. Errors: those of `open_set`.
FoundSet find_set(const std::string& name, Split split, const SetOptions& options = {});

/// The store in which `open_set` keeps packs for these options.
PackStore pack_store(const SetOptions& options);

}  // namespace lockstep::data
