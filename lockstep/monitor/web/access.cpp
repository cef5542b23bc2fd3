#include "lockstep/monitor/web/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::monitor {
namespace {

constexpr std::size_t kFewestTokenCharacters = 16;
constexpr std::size_t kMostTokenCharacters = 128;
constexpr std::size_t kTokenBytes = 16;

bool is_fit_for_a_url(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '-' ||
         character == '_' || character == '.';
}

}  // namespace

bool is_loopback(std::string_view address) {
  const std::string text(address);
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, text.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool is_our_name(std::string_view host_header, const std::vector<std::string>& names) {
  // The header is "name", "name:port", "[address]" or "[address]:port".
  const bool is_bracketed = host_header.starts_with('[');
  const auto end = std::min(host_header.find(is_bracketed ? "]" : ":"), host_header.size());
  auto rest = host_header.substr(end);
  if (is_bracketed && rest.empty()) return false;
  if (is_bracketed) rest.remove_prefix(1);
  if (!rest.empty()) {
    const auto port = parse_integer(rest.substr(1));
    if (rest[0] != ':' || !port || *port < 0 || *port > 65535) return false;
  }
  const std::string host(host_header.substr(0, end).substr(is_bracketed ? 1 : 0));
  std::array<unsigned char, sizeof(in6_addr)> address{};
  const bool is_address =
      ::inet_pton(is_bracketed ? AF_INET6 : AF_INET, host.c_str(), address.data()) == 1;
  const auto is_host = [&](const std::string& name) {
    return ::strcasecmp(name.c_str(), host.c_str()) == 0;
  };
  return is_address || is_host("localhost") || std::ranges::any_of(names, is_host);
}

void check_token(std::string_view token) {
  constexpr const char* kHint = "leave it out, and one is made";
  if (token.size() < kFewestTokenCharacters || token.size() > kMostTokenCharacters) {
    throw Error(ErrorKind::Options,
                fmt::format("dashboard: expected a token of {} to {} characters, found {}",
                            kFewestTokenCharacters, kMostTokenCharacters, token.size()),
                kHint);
  }
  if (!std::ranges::all_of(token, is_fit_for_a_url)) {
    throw Error(ErrorKind::Options,
                "dashboard: expected a token of letters, digits and -_., found another character",
                kHint);
  }
}

bool is_same_token(std::string_view given, std::string_view token) noexcept {
  // The length of a token is not secret.
  return given.size() == token.size() &&
         ::sodium_memcmp(given.data(), token.data(), token.size()) == 0;
}

std::string make_token() {
  if (::sodium_init() < 0) {
    throw Error(ErrorKind::Unavailable, "dashboard: this machine gives no random numbers");
  }
  std::array<unsigned char, kTokenBytes> bytes{};
  ::randombytes_buf(bytes.data(), bytes.size());
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string_view cookie(std::string_view header, std::string_view name) {
  for (const auto part : split(header, ';')) {
    const auto pair = trim(part);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
  }
  return {};
}

}  // namespace lockstep::monitor
