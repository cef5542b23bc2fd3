#include "lockstep/gpu/update/leaf_steps.h"

#include <algorithm>

#include "lockstep/comm/leaf_counter.h"

namespace lockstep::gpu {
namespace {

using Additions = std::vector<LeafStep::Addition>;

/// The pairs to add once the next leaf is there, if it had a row of its own.
Additions take(comm::LeafCounter& counter) {
  Additions additions;
  for (const auto& fold : counter.take()) additions.push_back({fold.into, fold.from});
  return additions;
}

/// What is left are ever smaller nodes: each is all that stands to the right of the one before.
Additions merge(const std::vector<comm::LeafCounter::Held>& held) {
  Additions additions;
  for (auto i = held.size() - 1; i > 0; --i) {
    additions.push_back({held[i - 1].buffer, held[i].buffer});
  }
  return additions;
}

enum class Ending { Nodes, Root };

LeafSteps steps_for(comm::LeafCounter counter, Ending ending) {
  LeafSteps result;
  while (counter.num_missing() > 0) {
    LeafStep step{.combine = Combine::Write, .row = counter.next_buffer()};
    step.additions = take(counter);
    if (counter.num_missing() == 0 && ending == Ending::Root) {
      std::ranges::copy(merge(counter.held()), std::back_inserter(step.additions));
    }
    if (!step.additions.empty() && step.additions.front().right == step.row) {
      step.combine = Combine::Add;
      step.row = step.additions.front().left;
      step.additions.erase(step.additions.begin());
    }
    result.num_rows = std::max(result.num_rows, step.row + 1);
    result.steps.push_back(std::move(step));
  }
  for (const auto& held : counter.held()) result.nodes.push_back(held.buffer);
  if (ending == Ending::Root) result.nodes.resize(1);
  return result;
}

}  // namespace

LeafSteps leaf_steps(int num_leaves) {
  return steps_for(comm::LeafCounter({0, num_leaves}), Ending::Root);
}

LeafSteps leaf_steps(comm::LeafRange leaves) {
  return steps_for(comm::LeafCounter(leaves), Ending::Nodes);
}

}  // namespace lockstep::gpu
