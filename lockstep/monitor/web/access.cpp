#include "lockstep/monitor/web/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sodium.h>

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

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& character : result) {
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  return result;
}

bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

bool is_port(std::string_view text) {
  const auto number = parse_integer(text);
  return number && *number >= 0 && *number <= 65535;
}

/// "name:port", "name" or "[address]:port" without the port; nothing where it is none of them.
std::optional<std::string> without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    if (end == std::string_view::npos) return {};
    const auto rest = host.substr(end + 1);
    if (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))) return {};
    return lower(host.substr(1, end - 1));
  }
  const auto colon = host.find(':');
  if (colon == std::string_view::npos) return lower(host);
  if (!is_port(host.substr(colon + 1))) return {};
  return lower(host.substr(0, colon));
}

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
  const auto host = without_port(host_header);
  if (!host) return false;
  if (*host == "localhost" || is_address(*host)) return true;
  return std::ranges::any_of(names, [&](const auto& name) { return lower(name) == *host; });
}

TokenCheck::TokenCheck(const std::string& token) : token_(token) {
  if (token.size() < kFewestTokenCharacters || token.size() > kMostTokenCharacters) {
    throw Error(ErrorKind::Options,
                fmt::format("dashboard: expected a token of {} to {} characters, found {}",
                            kFewestTokenCharacters, kMostTokenCharacters, token.size()),
                "leave it out, and one is made");
  }
  if (!std::ranges::all_of(token, is_fit_for_a_url)) {
    throw Error(ErrorKind::Options,
                "dashboard: expected a token of letters, digits and -_., found another character",
                "leave it out, and one is made");
  }
}

bool TokenCheck::accepts(std::string_view token) const noexcept {
  if (!token_) return true;
  // How long a token is is no secret.
  return token.size() == token_->size() &&
         ::sodium_memcmp(token.data(), token_->data(), token.size()) == 0;
}

std::string make_token() {
  if (::sodium_init() < 0) {
    throw Error(ErrorKind::Unavailable, "dashboard: this machine gives no random numbers");
  }
  std::array<unsigned char, kTokenBytes> bytes{};
  ::randombytes_buf(bytes.data(), bytes.size());
  std::string token;
  for (const auto byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::optional<std::string_view> cookie(std::string_view header, std::string_view name) {
  for (const auto part : split(header, ';')) {
    const auto pair = trim(part);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
  }
  return {};
}

}  // namespace lockstep::monitor
