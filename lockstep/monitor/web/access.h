#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::monitor {

/// Whether a numeric address is this machine's own: 127.0.0.0/8 or ::1.
bool is_loopback(std::string_view address);

/// Whether a `Host` header contains a name of this server: a numeric address, `localhost`, or one
/// of `names`. The port may differ, because a tunnel may end at another port.
///
/// This check stops DNS rebinding: if a foreign page lets its own name resolve to our address, the
/// browser sends the foreign name.
bool is_our_name(std::string_view host_header, const std::vector<std::string>& names);

/// Throws `Options` if a token is easy to guess or does not fit into a URL.
void check_token(std::string_view token);

/// Compares two tokens. Needs the same time for a wrong token as for the right one.
bool is_same_token(std::string_view given, std::string_view token) noexcept;

/// Returns a new token of 128 random bits.
std::string make_token();

/// The value of a cookie in a `Cookie` header. libmicrohttpd has a parser for cookies too, but it
/// can lose ours if another server of this host has set a malformed one.
std::string_view cookie(std::string_view header, std::string_view name);

}  // namespace lockstep::monitor
