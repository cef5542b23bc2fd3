#include "lockstep/comm/tcp/secret.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"

namespace lockstep::comm::tcp {
namespace {

std::string path_in(const std::string& folder) {
  return folder + "/secret";
}

void need_sodium() {
  if (::sodium_init() < 0) throw Error(ErrorKind::Unavailable, "libsodium cannot be used here");
}

}  // namespace

Secret Secret::random() {
  need_sodium();
  Secret secret;
  ::randombytes_buf(secret.bytes_.data(), kBytes);
  return secret;
}

std::optional<Secret> Secret::parse(std::string_view text) {
  need_sodium();
  Secret secret;
  std::size_t length = 0;
  const char* end = nullptr;
  const bool is_hex = ::sodium_hex2bin(secret.bytes_.data(), kBytes, text.data(), text.size(),
                                       nullptr, &length, &end) == 0;
  if (!is_hex || length != kBytes || end != text.data() + text.size()) return std::nullopt;
  return secret;
}

Secret Secret::read(const std::string& folder) {
  auto text = read_file(path_in(folder));
  const auto secret = parse(trim(text));
  ::sodium_memzero(text.data(), text.size());
  if (secret) return *secret;
  throw Error(ErrorKind::Data,
              path_in(folder) + ": expected 64 hexadecimal digits, found something else",
              "start the job with 'lockstep run', which writes the file");
}

Secret::~Secret() {
  ::sodium_memzero(bytes_.data(), kBytes);
}

std::string Secret::to_text() const {
  std::string text(2 * kBytes + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bytes_.data(), kBytes);
  text.pop_back();
  return text;
}

void Secret::write(const std::string& folder) const {
  const auto path = path_in(folder);
  // What was there may be readable for others, or open.
  ::unlink(path.c_str());
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) throw io_error("write " + path);
  const auto text = to_text() + "\n";
  if (::write(file.get(), text.data(), text.size()) != std::ssize(text)) {
    throw io_error("write " + path);
  }
}

}  // namespace lockstep::comm::tcp
