#include <fmt/format.h>
#include <munge.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/comm/slurm/credential.h"

namespace lockstep::comm::slurm {
namespace {

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }
  void operator()(munge_ctx_t context) const noexcept { ::munge_ctx_destroy(context); }
};

using Context = std::unique_ptr<munge_ctx, Free>;

}  // namespace

bool has_credentials() noexcept {
  return true;
}

std::string seal(std::string_view message) {
  const Context context(::munge_ctx_create());
  char* text = nullptr;
  auto error = context ? ::munge_ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, ::geteuid())
                       : EMUNGE_NO_MEMORY;
  if (error == EMUNGE_SUCCESS) {
    error = ::munge_encode(&text, context.get(), message.data(), static_cast<int>(message.size()));
  }
  const std::unique_ptr<char, Free> sealed(text);
  if (error == EMUNGE_SUCCESS) return sealed.get();
  throw Error(
      ErrorKind::Unavailable,
      fmt::format("meeting: munge cannot vouch for this process: {}", ::munge_strerror(error)),
      "start munged on every node, or the job with 'lockstep train' in the allocation");
}

std::optional<std::string> open(const std::string& sealed) {
  void* data = nullptr;
  int length = 0;
  uid_t user = 0;
  const auto error = ::munge_decode(sealed.c_str(), nullptr, &data, &length, &user, nullptr);
  const std::unique_ptr<void, Free> memory(data);
  if (error != EMUNGE_SUCCESS || user != ::geteuid()) return std::nullopt;
  return std::string(static_cast<const char*>(data), static_cast<std::size_t>(length));
}

}  // namespace lockstep::comm::slurm
