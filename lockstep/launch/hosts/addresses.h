#pragma once

#include <string>
#include <vector>

namespace lockstep::launch {

/// The addresses of a host, in numbers, as the resolver orders them; none where it does not know
/// the name.
std::vector<std::string> addresses_of(const std::string& host);

/// The own address of this machine on the way to another address, in numbers; empty where there is
/// no way.
std::string address_towards(const std::string& address);

/// The address that a connected socket has on this side, in numbers; empty for anything else.
std::string local_address(int socket);

}  // namespace lockstep::launch
