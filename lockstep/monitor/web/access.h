#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::monitor {

/// Whether an address, as numbers, is this machine's own: 127.0.0.0/8 or ::1.
bool is_loopback(std::string_view address);

/// Whether a `Host` header names this server. A page of a stranger can have its own name resolve to
/// our address (DNS rebinding), and would be let in by the browser's rules; but then the header
/// holds the stranger's name. Addresses as numbers, `localhost` and the names given here are ours,
/// with any port, since a tunnel may end at another one.
bool is_our_name(std::string_view host_header, const std::vector<std::string>& names);

/// Who may see the dashboard: everybody, or those who know a token.
class TokenCheck {
 public:
  TokenCheck() = default;
  /// Errors: `Options` for a token that could be guessed, or that does not fit into a URL.
  explicit TokenCheck(const std::string& token);

  bool is_needed() const noexcept { return token_.has_value(); }
  /// Takes as long for a wrong token as for the right one.
  bool accepts(std::string_view token) const noexcept;

 private:
  std::optional<std::string> token_;
};

/// A new token: 128 random bits.
std::string make_token();

/// The value of a cookie in a `Cookie` header.
std::optional<std::string_view> cookie(std::string_view header, std::string_view name);

}  // namespace lockstep::monitor
