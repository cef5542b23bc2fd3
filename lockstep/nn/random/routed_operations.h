#pragma once

#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::nn {

/// Sends every random operation that the calling thread runs from here on to the current
/// `RandomScope`.
///
/// libtorch decides by a set of keys which functions an operation passes through on its way to a
/// kernel. A thread can add a key, and libtorch keeps one for whoever wants to see operations go by
/// (it names it for tests, and uses it for nothing itself). Under that key every operation that
/// takes a generator gets a function which fills in the scope's where the caller gave none; the few
/// random ones that take none get one that refuses. All others pass it by at no cost, as they do
/// in threads without the key.
void route_random_operations();

void unroute_random_operations() noexcept;

/// The last refusal of the calling thread that nobody has taken yet, for whoever catches what
/// somebody else made of it.
std::optional<Error> take_refusal();

}  // namespace lockstep::nn
