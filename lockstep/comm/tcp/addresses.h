#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm::tcp {

/// The addresses of a host, in numbers, as the resolver orders them; none where it does not know
/// the name.
std::vector<std::string> addresses_of(const std::string& host);

/// The own address of this machine on the way to another address, in numbers; empty where there is
/// no way.
std::string address_towards(const std::string& address);

/// Whether an address, in numbers, is one that every machine has for itself.
bool is_loopback(std::string_view address);

/// The address that a connected socket has on this side, in numbers; empty for anything else.
std::string local_address(int socket);

}  // namespace lockstep::comm::tcp
