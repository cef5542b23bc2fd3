#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/world.h"

namespace lockstep::train {

/// Seconds that it took, round by round, to bring gradients of all parameters of a network of the
/// zoo, one replica for each instance, to combine them, and to update the weights by plain SGD: all
/// of an optimizer step but forward and backward. Gradients are written anew before each round, so
/// no cache holds them. Every instance calls it; all get the times of instance 0.
///
/// Errors: `Bug` where the weights do not become what they should.
std::vector<double> time_updates(const World& world, const std::string& network, int rounds);

}  // namespace lockstep::train
