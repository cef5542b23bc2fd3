#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/world.h"

namespace lockstep::bench {

/// Measures an optimizer step without forward and backward: takes the gradients of all parameters
/// of a network of the zoo, with one replica per instance, reduces them, and updates the weights by
/// plain SGD. Returns the seconds of each round on instance 0. Writes the gradients again before
/// each round, so that no cache holds them. Collective: every instance calls it.
///
/// Errors: `Bug` if the weights are wrong after the first step.
std::vector<double> time_updates(const World& world, const std::string& network, int rounds);

}  // namespace lockstep::bench
