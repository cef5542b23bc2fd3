#include "lockstep/data/sets/stored_files.h"

#include "lockstep/base/error.h"

namespace lockstep::data {

const StoredFiles* stored_files(const Dataset& set) {
  if (const auto* const files = dynamic_cast<const StoredFiles*>(&set)) return files;
  throw Error(ErrorKind::Options,
              "pack: stored files were asked for, and this set has no file for each picture",
              "leave --as-stored out");
}

}  // namespace lockstep::data
