#include "lockstep/checkpoint/resume.h"

namespace lockstep::checkpoint {

Resume parse_resume(std::string_view text) {
  if (text.empty() || text == kNewest) return {Resume::From::Newest};
  if (text == "auto") return {Resume::From::NewestIfAny};
  return {Resume::From::Path, std::filesystem::path(text)};
}

}  // namespace lockstep::checkpoint
