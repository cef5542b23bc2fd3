#include "lockstep/data/formats/md5.h"

#include <sys/types.h>
// libmd's header leans on the types above.
#include <md5.h>

#include <array>

#include "lockstep/base/error.h"

namespace lockstep::data {

std::string md5_of(const std::filesystem::path& file) {
  std::array<char, MD5_DIGEST_STRING_LENGTH> digits{};
  if (::MD5File(file.c_str(), digits.data()) == nullptr) throw io_error("read " + file.string());
  return digits.data();
}

}  // namespace lockstep::data
